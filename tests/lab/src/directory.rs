//! A lab's directory, which goes with the process that made it, however that ends.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result};
use nix::unistd::setsid;

use crate::cgroup;

const PREFIX: &str = "redoline-lab-";

/// Reads until the lab's process closes the other end, which its death does too. Then removes the
/// directory `$1` and the control groups whose names begin with the other arguments; these only once
/// their processes are gone.
const JANITOR: &str = r#"
cat >/dev/null
rm -rf -- "$1"
shift
for attempt in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    left=
    for prefix in "$@"; do
        for group in "$prefix"-*; do
            [ -d "$group" ] && ! rmdir "$group" 2>/dev/null && left=1
        done
    done
    [ -z "$left" ] && exit
    sleep 0.1
done
"#;

/// A directory below the system's temporary one. Dropping it removes it; if this process is killed,
/// a helper process does.
#[derive(Debug)]
pub(crate) struct LabDirectory {
    path: PathBuf,
    janitor: Child,
}

impl LabDirectory {
    pub(crate) fn create() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("{PREFIX}{}-{count}", process::id()));
        fs::create_dir(&path)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o711)))
            .with_context(|| format!("failed to make `{}`", path.display()))?;
        let mut janitor = Command::new("sh");
        janitor.args(["-c", JANITOR, "redoline-lab-janitor"]).arg(&path);
        janitor.args(cgroup::roots().map(|root| root.join(directory_name(&path))));
        janitor.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: the function makes one system call; it neither allocates nor locks.
        unsafe { janitor.pre_exec(|| Ok(setsid().map(drop)?)) };
        let janitor = janitor.spawn().context("failed to start the directory's janitor")?;
        Ok(Self { path, janitor })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its own name, which no other lab on this machine has.
    pub(crate) fn name(&self) -> String {
        directory_name(&self.path)
    }
}

impl Drop for LabDirectory {
    fn drop(&mut self) {
        drop(self.janitor.stdin.take());
        // If the janitor failed, the directory is found by whoever looks; nothing else can be done.
        let _ = self.janitor.wait();
    }
}

/// Removes what labs of dead processes left, should their janitor have died as well.
pub(crate) fn sweep() {
    sweep_in(&std::env::temp_dir(), |left| fs::remove_dir_all(left));
    for root in cgroup::roots() {
        sweep_in(root, |left| fs::remove_dir(left));
    }
}

fn sweep_in(directory: &Path, remove: impl Fn(&Path) -> std::io::Result<()>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(owner) = name.to_str().and_then(owner) else { continue };
        if !Path::new(&format!("/proc/{owner}")).exists() {
            // Another process may be sweeping too.
            let _ = remove(&entry.path());
        }
    }
}

fn directory_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The process ID in a lab directory's name.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_labs_have_an_owner() {
        assert_eq!(owner("redoline-lab-4711-0"), Some(4711));
        assert_eq!(owner("redoline-lab-4711-0-ash1"), Some(4711));
        assert_eq!(owner("redoline-lab-notes"), None);
        assert_eq!(owner("other-4711-0"), None);
    }
}
