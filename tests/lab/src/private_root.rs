//! A node's files: the machine's own, seen through an overlay, so that nothing written on a node
//! reaches the machine, and every change can be listed.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File, Permissions},
    os::{
        fd::AsRawFd,
        unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use nix::{
    errno::Errno,
    mount::{MntFlags, MsFlags, mount, umount2},
    unistd::{chdir, pivot_root},
};

use crate::namespace::Namespace;

/// Directories that start empty on a node, each a mount of its own, with their modes.
const EMPTY: [(&str, u32); 6] = [
    ("/tmp", 0o1777),
    ("/var/tmp", 0o1777),
    ("/dev/shm", 0o1777),
    ("/run", 0o755),
    ("/home", 0o755),
    ("/root", 0o700),
];

/// Where what a node writes to the machine's directories ends up.
#[derive(Debug)]
pub(crate) struct Upper(File);

/// Moves the calling thread into a root of its own. `base` is a directory to mount on; `disk` a
/// directory on a real file system, which the node sees as `/u02`.
///
/// To be called in a new mount namespace, before any process is in it.
pub(crate) fn enter(base: &Path, disk: &Path) -> Result<Upper> {
    mount_tmpfs(base, 0o700)?;
    let root = base.join("root");
    let (upper, work) = (base.join("upper"), base.join("work"));
    for directory in [&root, &upper, &work] {
        make_directory(directory, 0o755)?;
    }
    let options = format!("lowerdir=/,upperdir={},workdir={}", upper.display(), work.display());
    mount(Some("overlay"), &root, Some("overlay"), MsFlags::empty(), Some(options.as_str()))
        .context("failed to mount the overlay")?;
    bind(Path::new("/dev"), &root.join("dev"))?;
    mount(Some("sysfs"), &root.join("sys"), Some("sysfs"), MsFlags::empty(), None::<&str>)
        .context("failed to mount `/sys`")?;
    let cgroups = Path::new("/sys/fs/cgroup");
    if cgroups.exists() {
        bind(cgroups, &root.join("sys/fs/cgroup"))?;
    }
    for (directory, mode) in EMPTY {
        mount_tmpfs(&root.join(&directory[1..]), mode)?;
    }
    make_directory(&root.join("u02"), 0o755)?;
    bind(disk, &root.join("u02"))?;
    let upper = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY)
        .open(&upper)
        .context("failed to open the overlay's directory")?;
    chdir(&root).and_then(|()| pivot_root(".", ".")).context("failed to change the root")?;
    umount2(".", MntFlags::MNT_DETACH).context("failed to leave the old root")?;
    chdir("/").context("failed to change to the new root")?;
    Ok(Upper(upper))
}

impl Upper {
    /// All files (no directories) that are the node's own, except logs.
    pub(crate) fn files(&self, node: &Namespace) -> Result<BTreeSet<PathBuf>> {
        let mut files = BTreeSet::new();
        let changed = PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()));
        collect(&changed, Path::new("/"), &mut files);
        files.retain(|file| !file.starts_with("/var/log"));
        let private = node.enter(|| {
            let mut files = BTreeSet::new();
            for (directory, _) in EMPTY {
                collect(Path::new(directory), Path::new(directory), &mut files);
            }
            collect(Path::new("/u02"), Path::new("/u02"), &mut files);
            Ok(files)
        })?;
        files.extend(private);
        Ok(files)
    }
}

/// Makes a directory one from which nothing can be executed. To be called inside.
pub(crate) fn forbid_execution(directory: &Path) -> Result<()> {
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_NOEXEC;
    let remount = || mount(None::<&str>, directory, None::<&str>, flags, None::<&str>);
    match remount() {
        // Not a mount point yet.
        Err(Errno::EINVAL) => {
            bind(directory, directory)?;
            remount()
        }
        other => other,
    }
    .with_context(|| format!("failed to forbid execution in `{}`", directory.display()))
}

/// Adds what is below `directory`, under the name `name`. What vanishes meanwhile is left out.
fn collect(directory: &Path, name: &Path, files: &mut BTreeSet<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = name.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), &name, files);
        } else {
            files.insert(name);
        }
    }
}

fn make_directory(directory: &Path, mode: u32) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(directory)
        .and_then(|()| fs::set_permissions(directory, Permissions::from_mode(mode)))
        .with_context(|| format!("failed to make `{}`", directory.display()))
}

fn mount_tmpfs(directory: &Path, mode: u32) -> Result<()> {
    make_directory(directory, 0o755)?;
    let options = format!("mode={mode:o}");
    mount(Some("tmpfs"), directory, Some("tmpfs"), MsFlags::empty(), Some(options.as_str()))
        .with_context(|| format!("failed to mount `{}`", directory.display()))
}

fn bind(from: &Path, to: &Path) -> Result<()> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)
        .with_context(|| format!("failed to bind `{}` to `{}`", from.display(), to.display()))
}
