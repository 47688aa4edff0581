//! Which executable goes to a node: a lean agent for its architecture, or the controller itself.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use object::Endianness;
use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use sha2::{Digest as _, Sha256};

/// A processor architecture that an agent is built for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Architecture {
    X86_64,
    Aarch64,
}

/// The C library an executable needs where it runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CLibrary {
    /// Statically linked: starts on any Linux of its architecture.
    None,
    /// The loader of some C library; for glibc, the lowest version that will do.
    Dynamic { glibc: Option<GlibcVersion> },
}

/// Major and minor version of glibc.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct GlibcVersion(pub u32, pub u32);

/// How an executable is told to be the agent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// It is nothing but the agent.
    Lean,
    /// It is the controller, whose first argument must be `agent`.
    Controller,
}

/// An executable that can be an agent, with what decides whether it runs on a node.
#[derive(Clone, Debug)]
pub struct Executable {
    pub path: PathBuf,
    pub role: Role,
    pub architecture: Architecture,
    pub c_library: CLibrary,
    contents: Contents,
}

/// An executable's bytes and their SHA-256 in hexadecimal; shared by all nodes.
#[derive(Clone)]
pub struct Contents {
    pub bytes: Arc<[u8]>,
    pub sha256: Arc<str>,
}

/// The executables at hand, at most one for each architecture.
#[derive(Clone, Debug, Default)]
pub struct Executables(Vec<Executable>);

/// Why a file cannot be used as an agent.
#[derive(Debug, thiserror::Error)]
pub enum ExecutableError {
    #[error("cannot read the agent executable {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is not an agent for Linux: {reason}", path.display())]
    Unusable { path: PathBuf, reason: String },
}

impl Executables {
    /// What is beside the running controller, and the controller itself where nothing else is.
    ///
    /// For each architecture the first of: one of `named`, `redoline-agent-<architecture>-linux`,
    /// a static `redoline-agent`, the controller. Only files of `named` must exist and be usable.
    pub fn find(named: &[PathBuf]) -> Result<Self, ExecutableError> {
        let controller = std::env::current_exe()
            .map_err(|source| ExecutableError::Read { path: "/proc/self/exe".into(), source })?;
        Self::beside(&controller, named)
    }

    fn beside(controller: &Path, named: &[PathBuf]) -> Result<Self, ExecutableError> {
        let mut found = Self::default();
        for path in named {
            found.add(Executable::read(path, Role::Lean)?);
        }
        let directory = controller.parent().unwrap_or(Path::new("."));
        for architecture in [Architecture::X86_64, Architecture::Aarch64] {
            let path = directory.join(format!("redoline-agent-{architecture}-linux"));
            if path.exists() {
                found.add(Executable::read(&path, Role::Lean)?);
            }
        }
        let plain = directory.join("redoline-agent");
        if plain.exists() {
            let plain = Executable::read(&plain, Role::Lean)?;
            // One that needs this machine's C library is no better than the controller.
            if plain.c_library == CLibrary::None {
                found.add(plain);
            }
        }
        // The controller is large; it is read and hashed only where nothing else will do.
        if found.for_this_machine().is_none() {
            found.add(Executable::read(controller, Role::Controller)?);
        }
        Ok(found)
    }

    pub fn new(executables: Vec<Executable>) -> Self {
        let mut all = Self::default();
        executables.into_iter().for_each(|executable| all.add(executable));
        all
    }

    fn add(&mut self, executable: Executable) {
        if self.for_architecture(executable.architecture).is_none() {
            self.0.push(executable);
        }
    }

    pub fn for_architecture(&self, architecture: Architecture) -> Option<&Executable> {
        self.0.iter().find(|executable| executable.architecture == architecture)
    }

    /// The one for the machine that the controller runs on.
    pub fn for_this_machine(&self) -> Option<&Executable> {
        Architecture::from_uname(std::env::consts::ARCH)
            .and_then(|architecture| self.for_architecture(architecture))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Executable> {
        self.0.iter()
    }
}

impl Executable {
    /// Reads an executable and what it needs; the bytes are read once for an unchanged file.
    pub fn read(path: &Path, role: Role) -> Result<Self, ExecutableError> {
        let contents = read_once(path)
            .map_err(|source| ExecutableError::Read { path: path.to_owned(), source })?;
        let (architecture, c_library) = needs_of(&contents.bytes).map_err(|reason| {
            ExecutableError::Unusable { path: path.to_owned(), reason: reason.to_string() }
        })?;
        Ok(Self { path: path.to_owned(), role, architecture, c_library, contents })
    }

    /// An executable with these bytes, without a look at what they are.
    pub fn from_parts(
        path: PathBuf,
        role: Role,
        architecture: Architecture,
        c_library: CLibrary,
        bytes: Vec<u8>,
    ) -> Self {
        Self { path, role, architecture, c_library, contents: Contents::of(bytes) }
    }

    /// The name of its copy on a node, in which its content is part.
    pub fn remote_name(&self) -> String {
        format!("redoline-agent-{}", self.sha256().get(..16).unwrap_or_default())
    }

    /// In hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.contents.sha256
    }

    pub fn bytes(&self) -> &[u8] {
        &self.contents.bytes
    }
}

impl Contents {
    fn of(bytes: Vec<u8>) -> Self {
        let digest = Sha256::digest(&bytes);
        let sha256: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { bytes: bytes.into(), sha256: sha256.into() }
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes, sha256 {}", self.bytes.len(), self.sha256)
    }
}

impl Architecture {
    /// From the words of `uname -m`.
    pub fn from_uname(machine: &str) -> Option<Self> {
        match machine {
            "x86_64" | "amd64" => Some(Self::X86_64),
            "aarch64" | "arm64" => Some(Self::Aarch64),
            _ => None,
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        })
    }
}

impl GlibcVersion {
    /// From `2.34`, or from the `GLIBC_2.34` of a symbol's version.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.strip_prefix("GLIBC_").unwrap_or(text);
        let (major, minor) = numbers.split_once('.')?;
        let minor = minor.split('.').next()?;
        Some(Self(major.parse().ok()?, minor.parse().ok()?))
    }
}

impl fmt::Display for GlibcVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "glibc {}.{}", self.0, self.1)
    }
}

/// What tells one state of a file from another.
type FileState = (PathBuf, i64, i64, u64);

/// A controller of hundreds of nodes hashes its agent once.
fn read_once(path: &Path) -> io::Result<Contents> {
    static READ: LazyLock<Mutex<HashMap<FileState, Contents>>> = LazyLock::new(Mutex::default);
    let metadata = fs::metadata(path)?;
    let state = (path.to_owned(), metadata.mtime(), metadata.mtime_nsec(), metadata.len());
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(contents) = read.get(&state) {
        return Ok(contents.clone());
    }
    let contents = Contents::of(fs::read(path)?);
    read.insert(state, contents.clone());
    Ok(contents)
}

/// Architecture and C library that an ELF executable needs.
fn needs_of(bytes: &[u8]) -> Result<(Architecture, CLibrary), NotAnAgent> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let architecture = match header.e_machine(endian) {
        EM_X86_64 => Architecture::X86_64,
        EM_AARCH64 => Architecture::Aarch64,
        _ => return Err(NotAnAgent::Machine),
    };
    let mut is_dynamic = false;
    for segment in header.program_headers(endian, bytes)? {
        is_dynamic |= segment.interpreter(endian, bytes)?.is_some();
    }
    if !is_dynamic {
        return Ok((architecture, CLibrary::None));
    }
    let glibc = lowest_glibc(header, endian, bytes)?;
    Ok((architecture, CLibrary::Dynamic { glibc }))
}

#[derive(Debug, thiserror::Error)]
enum NotAnAgent {
    #[error("it is built for neither x86_64 nor aarch64")]
    Machine,
    #[error("{0}")]
    Elf(#[from] object::read::Error),
}

/// The highest glibc version that any symbol asks for.
fn lowest_glibc(
    header: &FileHeader64<Endianness>,
    endian: Endianness,
    bytes: &[u8],
) -> Result<Option<GlibcVersion>, object::read::Error> {
    let sections = header.sections(endian, bytes)?;
    let Some((mut libraries, names)) = sections.gnu_verneed(endian, bytes)? else {
        return Ok(None);
    };
    let strings = sections.strings(endian, bytes, names)?;
    let mut highest = None;
    while let Some((_, mut versions)) = libraries.next()? {
        while let Some(version) = versions.next()? {
            let name = String::from_utf8_lossy(version.name(endian, strings)?);
            if name.starts_with("GLIBC_") {
                highest = highest.max(GlibcVersion::parse(&name));
            }
        }
    }
    Ok(highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_glibc_compare_as_numbers() {
        assert!(GlibcVersion::parse("GLIBC_2.9") < GlibcVersion::parse("2.17"));
        assert_eq!(GlibcVersion::parse("GLIBC_2.2.5"), Some(GlibcVersion(2, 2)));
        assert_eq!(GlibcVersion::parse("GLIBC_PRIVATE"), None);
    }

    #[test]
    fn this_test_itself_is_a_dynamic_executable_of_this_machine() {
        let path = std::env::current_exe().unwrap();
        let executable = Executable::read(&path, Role::Controller).unwrap();
        assert_eq!(executable.architecture.to_string(), std::env::consts::ARCH);
        if cfg!(all(target_env = "gnu", not(target_feature = "crt-static"))) {
            let CLibrary::Dynamic { glibc: Some(version) } = executable.c_library else {
                panic!("{:?}", executable.c_library)
            };
            assert!(GlibcVersion(2, 17) <= version, "{version}");
        }
        assert_eq!(executable.sha256().len(), 64);
    }

    #[test]
    fn what_is_no_linux_executable_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("agent");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        let error = Executable::read(&script, Role::Lean).unwrap_err();
        assert!(error.to_string().contains("agent is not an agent for Linux"), "{error}");
        let missing = Executable::read(&directory.path().join("none"), Role::Lean).unwrap_err();
        assert!(matches!(missing, ExecutableError::Read { .. }));
    }

    /// The smallest header that says no more than the machine.
    fn elf(machine: u16) -> Vec<u8> {
        let mut header = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
        header.resize(64, 0);
        header[16] = 2;
        header[18..20].copy_from_slice(&machine.to_le_bytes());
        header[52] = 64;
        header
    }

    #[test]
    fn a_lean_agent_for_the_architecture_goes_before_the_controller() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("redoline"), elf(62)).unwrap();
        fs::write(at("redoline-agent-aarch64-linux"), elf(183)).unwrap();
        let found = Executables::beside(&at("redoline"), &[]).unwrap();
        assert_eq!(found.for_architecture(Architecture::X86_64).unwrap().role, Role::Controller);
        assert_eq!(found.for_architecture(Architecture::Aarch64).unwrap().role, Role::Lean);

        fs::write(at("redoline-agent"), elf(62)).unwrap();
        let found = Executables::beside(&at("redoline"), &[]).unwrap();
        assert_eq!(found.for_architecture(Architecture::X86_64).unwrap().role, Role::Lean);

        fs::write(at("named"), elf(62)).unwrap();
        let found = Executables::beside(&at("redoline"), &[at("named")]).unwrap();
        assert_eq!(found.for_architecture(Architecture::X86_64).unwrap().path, at("named"));
        assert_eq!(found.iter().count(), 2);
    }

    #[test]
    fn a_file_that_changed_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent");
        fs::write(&path, "a").unwrap();
        let first = read_once(&path).unwrap();
        assert!(Arc::ptr_eq(&first.bytes, &read_once(&path).unwrap().bytes));
        fs::write(&path, "ab").unwrap();
        assert_ne!(first.sha256, read_once(&path).unwrap().sha256);
    }
}
