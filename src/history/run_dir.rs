//! A run's folder, so that one damaged run harms no other.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::format::{self, UnreadableRun};
use crate::record::event::Moment;

/// Why a run's folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    #[error("failed to {operation} `{}`", path.display())]
    Io {
        operation: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("`{}` is not a run that can be shown", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        cause: UnreadableRun,
    },
}

/// A folder with `events.jsonl`, the reports, and the runbook and inventory as used.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
}

pub const EVENTS: &str = "events.jsonl";

impl RunDir {
    /// Makes `parent/<run id>`; an existing one is an error.
    pub fn create(parent: &Path, run_id: &str) -> Result<Self, RunDirError> {
        fs::create_dir_all(parent).map_err(io_error("create the folder", parent))?;
        let path = parent.join(run_id);
        fs::create_dir(&path).map_err(io_error("create the folder", &path))?;
        Ok(Self { path })
    }

    /// An existing run: its folder, or a file in it.
    pub fn open(path: &Path) -> Result<Self, RunDirError> {
        let folder = match path.is_file() {
            true => path.parent().unwrap_or(Path::new(".")),
            false => path,
        };
        Ok(Self { path: folder.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a whole file: beside its place first, then renamed, so that no reader sees half.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, RunDirError> {
        let path = self.path.join(name);
        let part = self.path.join(format!("{name}.part"));
        let written = fs::write(&part, text).map_err(io_error("write", &path));
        let renamed =
            written.and_then(|()| fs::rename(&part, &path).map_err(io_error("rename to", &path)));
        if renamed.is_err() {
            // Half a file is of no use; that it cannot be removed changes nothing.
            let _ = fs::remove_file(&part);
        }
        renamed.map(|()| path)
    }

    pub fn moments(&self) -> Result<Vec<Moment>, RunDirError> {
        let path = self.path.join(EVENTS);
        let text = fs::read(&path).map_err(io_error("read", &path))?;
        format::read(&String::from_utf8_lossy(&text))
            .map_err(|cause| RunDirError::Unreadable { path, cause })
    }

    /// The file that events are appended to.
    pub fn event_log(&self) -> Result<EventLog, RunDirError> {
        let path = self.path.join(EVENTS);
        let file = OpenOptions::new().create_new(true).append(true).open(&path);
        Ok(EventLog { file: file.map_err(io_error("create", &path))?, path, whole: 0 })
    }
}

/// `events.jsonl` while it grows.
#[derive(Debug)]
pub struct EventLog {
    file: File,
    path: PathBuf,
    /// Bytes up to the end of the last whole line.
    whole: u64,
}

impl EventLog {
    /// One line, in one write, so that a killed controller leaves at most a torn last line.
    pub fn append(&mut self, moment: &Moment) -> Result<(), RunDirError> {
        if !format::is_kept(&moment.event) {
            return Ok(());
        }
        let line = format::to_line(moment).map_err(io::Error::from);
        line.and_then(|line| self.write(&line)).map_err(io_error("append to", &self.path))
    }
}

impl EventLog {
    /// A full disk leaves no half line, so that what follows once there is room can be read.
    fn write(&mut self, line: &str) -> io::Result<()> {
        let written = self.file.write_all(line.as_bytes());
        match &written {
            Ok(()) => self.whole += line.len() as u64,
            Err(_) => self.file.set_len(self.whole)?,
        }
        written
    }
}

fn io_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RunDirError {
    let path = path.to_owned();
    move |cause| RunDirError::Io { operation, path, cause }
}
