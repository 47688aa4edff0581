//! What a node says of itself when it has no agent: its machine, its C library, its directories.

use super::super::executable::{Architecture, CLibrary, Executable, Executables, GlibcVersion};
use super::failure::Reason;
use super::script::is_plain;
use crate::connect::Process;

/// The first thing heard from a node.
#[derive(Debug)]
pub(super) enum FirstWord {
    Started(Process),
    Absent(Facts),
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Facts {
    /// `uname -sm`, such as `Linux x86_64`; empty when it was not told.
    machine: String,
    /// `None` where `getconf` knows nothing of glibc, as with musl.
    glibc: Option<GlibcVersion>,
    places: Vec<Place>,
}

/// A directory on a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    pub path: String,
    pub state: PlaceState,
    /// Free for this user; `None` when `df` did not tell.
    pub free_bytes: Option<u64>,
}

/// Whether an executable can be put into a directory and run there; found out by doing it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PlaceState {
    Usable,
    /// A file could be made, but not run.
    NoExec,
    /// Running was answered with "operation not permitted", as fapolicyd does.
    Denied,
    Full,
    Unwritable,
    /// No such directory.
    Missing,
}

/// Left free beside the executable, for whoever else lives there.
const SLACK_BYTES: u64 = 1024 * 1024;

impl Facts {
    pub(super) fn parse(text: &str) -> Self {
        let mut facts = Self::default();
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("machine", machine)) => facts.machine = machine.trim().to_owned(),
                Some(("libc", libc)) => {
                    facts.glibc = libc.trim().strip_prefix("glibc ").and_then(GlibcVersion::parse);
                }
                Some(("place", place)) => facts.places.extend(Place::parse(place)),
                _ => (),
            }
        }
        facts
    }

    /// The executable for this node.
    pub(super) fn executable<'a>(
        &self,
        executables: &'a Executables,
    ) -> Result<&'a Executable, Reason> {
        let (system, machine) = self.machine.split_once(' ').unwrap_or_default();
        let executable = Architecture::from_uname(machine)
            .filter(|_| system == "Linux")
            .and_then(|architecture| executables.for_architecture(architecture))
            .ok_or_else(|| Reason::no_executable(self.machine.clone(), executables))?;
        match (executable.c_library, self.glibc) {
            (CLibrary::Dynamic { glibc: Some(needs) }, has) if has < Some(needs) => {
                Err(Reason::CLibrary { executable: executable.path.clone(), needs, has })
            }
            _ => Ok(executable),
        }
    }

    /// The first directory that takes an executable of this size and runs it.
    pub(super) fn place_for(&self, executable: &Executable) -> Result<&Place, Reason> {
        let needed_bytes = executable.bytes().len() as u64 + SLACK_BYTES;
        let usable: Vec<&Place> =
            self.places.iter().filter(|place| place.state == PlaceState::Usable).collect();
        let fits = |place: &&&Place| place.free_bytes.is_none_or(|free| needed_bytes <= free);
        if let Some(place) = usable.iter().find(fits) {
            return Ok(place);
        }
        let places = self.places.clone();
        let has = |state| self.places.iter().any(|place| place.state == state);
        if !usable.is_empty() || has(PlaceState::Full) {
            return Err(Reason::DiskFull { needed_bytes, places });
        }
        if has(PlaceState::Denied) {
            return Err(Reason::Denied { path: list(&places), said: String::new() });
        }
        Err(Reason::NoPlace { places })
    }
}

impl Place {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(3, ' ');
        let state = match words.next()? {
            "usable" => PlaceState::Usable,
            "noexec" => PlaceState::NoExec,
            "denied" => PlaceState::Denied,
            "full" => PlaceState::Full,
            "missing" => PlaceState::Missing,
            _ => PlaceState::Unwritable,
        };
        let free_kib: Option<u64> = words.next()?.parse().ok();
        let path = words.next()?.to_owned();
        let free_bytes = free_kib.map(|free| free.saturating_mul(1024));
        // A path that a shell would take apart is no candidate.
        is_plain(&path).then_some(Self { path, state, free_bytes })
    }
}

/// `/tmp: noexec, 12 MiB free; …`
pub(super) fn list(places: &[Place]) -> String {
    let each = places.iter().map(|place| {
        let state = match place.state {
            PlaceState::Usable => "usable",
            PlaceState::NoExec => "does not run programs (noexec?)",
            PlaceState::Denied => "running is not permitted",
            PlaceState::Full => "full",
            PlaceState::Unwritable => "not writable",
            PlaceState::Missing => "does not exist",
        };
        let free = place.free_bytes.map(|free| format!(", {} KiB free", free / 1024));
        format!("{} {state}{}", place.path, free.unwrap_or_default())
    });
    each.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::super::executable::Role;
    use super::*;

    fn agent(c_library: CLibrary) -> Executables {
        let (role, machine) = (Role::Lean, Architecture::X86_64);
        let bytes = vec![0; 2 * 1024 * 1024];
        Executables::new(vec![Executable::from_parts("a".into(), role, machine, c_library, bytes)])
    }

    fn outcome(text: &str, executables: &Executables) -> String {
        let facts = Facts::parse(text);
        let chosen = facts.executable(executables).and_then(|found| facts.place_for(found));
        chosen.map_or_else(|reason| reason.to_string(), |place| place.path.clone())
    }

    #[test]
    fn the_first_directory_that_runs_programs_and_has_room_is_taken() {
        let text = "machine Linux x86_64\nlibc glibc 2.17\nplace noexec 90000 /var/tmp\n\
                    place usable 100 /run/user/1\nplace usable 9000 /home/o/.cache\n\
                    place usable unknown /tmp\nfacts-end\n";
        assert_eq!(outcome(text, &agent(CLibrary::None)), "/home/o/.cache");
    }

    #[test]
    fn every_reason_why_it_cannot_run_is_told_apart() {
        let fixed = agent(CLibrary::None);
        let needs = CLibrary::Dynamic { glibc: Some(GlibcVersion(2, 34)) };
        for (text, executables, expected) in [
            ("machine Linux s390x\nplace usable 9000 /tmp", &fixed, "s390x"),
            ("machine AIX x86_64\nplace usable 9000 /tmp", &fixed, "AIX"),
            ("", &fixed, "did not tell"),
            (
                "machine Linux x86_64\nlibc glibc 2.17\nplace usable 9000 /tmp",
                &agent(needs),
                "needs glibc 2.34, but the node has glibc 2.17",
            ),
            ("machine Linux x86_64\nlibc \nplace usable 9000 /tmp", &agent(needs), "no glibc"),
            ("machine Linux x86_64\nplace usable 10 /tmp", &fixed, "no room"),
            ("machine Linux x86_64\nplace full 0 /tmp", &fixed, "no room"),
            ("machine Linux x86_64\nplace noexec 9000 /tmp", &fixed, "noexec"),
            ("machine Linux x86_64\nplace unwritable 9000 /tmp", &fixed, "not writable"),
            ("machine Linux x86_64\nplace denied 9000 /tmp", &fixed, "fapolicyd"),
            ("machine Linux x86_64\nplace usable 9000 /tmp/a b", &fixed, "no directory"),
        ] {
            let outcome = outcome(text, executables);
            assert!(outcome.contains(expected), "{text:?}: {outcome}");
        }
    }
}
