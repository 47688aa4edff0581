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

    /// An existing run: its folder, or the `events.jsonl` in it.
    pub fn open(path: &Path) -> Result<Self, RunDirError> {
        let folder = match path.file_name().is_some_and(|name| name == EVENTS) {
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
        fs::write(&part, text).map_err(io_error("write", &part))?;
        fs::rename(&part, &path).map_err(io_error("rename to", &path))?;
        Ok(path)
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
        Ok(EventLog { file: file.map_err(io_error("create", &path))?, path })
    }
}

/// `events.jsonl` while it grows.
#[derive(Debug)]
pub struct EventLog {
    file: File,
    path: PathBuf,
}

impl EventLog {
    /// One line, in one write, so that a killed controller leaves at most a torn last line.
    pub fn append(&mut self, moment: &Moment) -> Result<(), RunDirError> {
        if !format::is_kept(&moment.event) {
            return Ok(());
        }
        let line = format::to_line(moment).map_err(io::Error::from);
        line.and_then(|line| self.file.write_all(line.as_bytes()))
            .map_err(io_error("append to", &self.path))
    }
}

fn io_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RunDirError {
    let path = path.to_owned();
    move |cause| RunDirError::Io { operation, path, cause }
}
