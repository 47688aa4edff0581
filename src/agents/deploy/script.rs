//! The shell scripts that run on nodes, each one line for `/bin/sh -c '…'` under any login shell.
//!
//! So: no single quote, no exclamation mark, no newline, no doubled backslash. Only POSIX; `test -O`
//! is the one liberty, and every shell of a Linux has it.

use std::fmt::Write as _;

use super::super::executable::{Architecture, Executable, Executables, Role};
use super::{AgentOptions, Reason};

/// What a script needs to know to speak with us.
pub(super) struct Remote<'a> {
    /// Starts every line that is for us; part of the names of temporary files.
    pub marker: &'a str,
    /// Instead of the usual directories.
    pub directory: Option<&'a str>,
    /// Ends the executable's name.
    pub suffix: &'a str,
}

/// A copy to make.
pub(super) struct Upload<'a> {
    pub marker: &'a str,
    pub directory: &'a str,
    pub executable: &'a Executable,
    pub suffix: &'a str,
}

/// Locale that every node has; files for nobody else; and never through a file planted by others.
const PROLOGUE: &str = "LC_ALL=C; export LC_ALL; umask 077; set -C";

/// Refuses words that would not survive the shell.
pub(super) fn check_words(options: &AgentOptions) -> Result<(), Reason> {
    let words = options.directory.iter().chain(&options.arguments);
    words.into_iter().try_for_each(|word| check_word(word))
}

/// Refuses a word that would not survive the shell.
pub(super) fn check_word(word: &str) -> Result<(), Reason> {
    if is_plain(word) { Ok(()) } else { Err(Reason::UnsafeWord { word: word.to_owned() }) }
}

/// True for a text that means itself to every shell, quoted or not.
pub(super) fn is_plain(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    !word.is_empty() && word.chars().all(is_plain)
}

/// The directories where the executable may be, in order.
fn directories(remote: &Remote<'_>) -> String {
    match remote.directory {
        Some(path) => format!("\"{path}\""),
        None => "\"$XDG_RUNTIME_DIR\" /var/tmp \"$HOME/.cache\" /dev/shm /tmp \"$HOME\"".to_owned(),
    }
}

/// Starts the agent where it is found whole; otherwise says what the node is.
pub(super) fn start(
    remote: &Remote<'_>,
    executables: &Executables,
    options: &AgentOptions,
) -> String {
    let marker = remote.marker;
    let directories = directories(remote);
    let mut choose = String::from("case $(uname -m) in ");
    for executable in executables.iter() {
        write!(
            choose,
            "{}) n={}{}; h={}; a={};; ",
            uname_pattern(executable.architecture),
            executable.remote_name(),
            remote.suffix,
            executable.sha256(),
            first_argument(executable.role),
        )
        .unwrap_or_default();
    }
    choose.push_str("esac");
    let exec = exec("\"$f\" $a", options, marker);
    format!(
        "{PROLOGUE}; n=; h=; a=; {choose}; \
         for d in {directories}; do f=\"$d/$n\"; \
         [ -n \"$n\" ] && [ -n \"$d\" ] && [ -f \"$f\" ] && [ -O \"$f\" ] && [ -x \"$f\" ] \
         || continue; [ -L \"$f\" ] && continue; \
         if command -v sha256sum >/dev/null 2>&1; then \
         case $(sha256sum <\"$f\") in $h*) ;; *) rm -f \"$f\"; continue;; esac; fi; \
         {exec}; done; \
         echo \"{marker} absent\"; {}",
        facts(marker, &directories)
    )
}

/// What decides whether and where an executable can be put.
fn facts(marker: &str, directories: &str) -> String {
    format!(
        "echo \"machine $(uname -sm)\"; \
         echo \"libc $(getconf GNU_LIBC_VERSION 2>/dev/null)\"; \
         for d in {directories}; do [ -n \"$d\" ] || continue; \
         [ -d \"$d\" ] || {{ echo \"place missing unknown $d\"; continue; }}; \
         p=\"$d/redoline-agent-{marker}.probe\"; s=unwritable; \
         if (echo : >\"$p\") 2>/dev/null; then s=noexec; chmod 700 \"$p\"; \
         if e=$(\"$p\" 2>&1); then s=usable; \
         else case $e in *\"not permitted\"*) s=denied;; esac; fi; \
         elif [ -f \"$p\" ]; then s=full; fi; rm -f \"$p\"; \
         k=$(df -Pk \"$d\" 2>/dev/null | tail -n 1 | (read -r b t u k r; echo \"$k\")); \
         echo \"place $s ${{k:-unknown}} $d\"; done; echo facts-end"
    )
}

/// Stores stdin under its final name, or leaves nothing.
pub(super) fn upload(upload: &Upload<'_>) -> String {
    let Upload { marker, directory, executable, suffix } = upload;
    let (name, sha256) = (executable.remote_name(), executable.sha256());
    let length = executable.bytes().len();
    format!(
        "{PROLOGUE}; f={directory}/{name}{suffix}; p=$f.{marker}.part; \
         trap \"rm -f $p\" 0; trap \"exit 1\" 1 2 13 15; \
         e=$( (cat >\"$p\") 2>&1 ) || {{ echo \"{marker} $e\"; exit 1; }}; \
         s=$(wc -c <\"$p\"); [ $s -eq {length} ] \
         || {{ echo \"{marker} only $s of {length} bytes arrived\"; exit 1; }}; \
         if command -v sha256sum >/dev/null 2>&1; then case $(sha256sum <\"$p\") in {sha256}*) ;; \
         *) echo \"{marker} the copy differs (sha256)\"; exit 1;; esac; fi; \
         e=$( (chmod 700 \"$p\" && mv -f \"$p\" \"$f\") 2>&1 ) \
         && echo \"{marker} stored\" || echo \"{marker} $e\""
    )
}

/// Removes one copy.
pub(super) fn remove(directory: &str, executable: &Executable, suffix: &str) -> String {
    format!("rm -f {directory}/{}{suffix}", executable.remote_name())
}

/// Removes own files that are older than a number of minutes.
pub(super) fn sweep(remote: &Remote<'_>, older_than_minutes: u32) -> String {
    let marker = remote.marker;
    let directories = directories(remote);
    let is_old = match older_than_minutes {
        0 => "true".to_owned(),
        minutes => format!("[ -n \"$(find \"$f\" -prune -mmin +{minutes} 2>/dev/null)\" ]"),
    };
    format!(
        "{PROLOGUE}; for d in {directories}; do [ -n \"$d\" ] && [ -d \"$d\" ] || continue; \
         for f in \"$d\"/redoline-agent-*; do [ -f \"$f\" ] && [ -O \"$f\" ] || continue; \
         [ -L \"$f\" ] && continue; {is_old} && rm -f \"$f\" && echo \"{marker} $f\"; done; done; \
         true"
    )
}

/// Removes the executable wherever this user has it, and names what could not be removed.
pub(super) fn clear(remote: &Remote<'_>, executables: &Executables) -> String {
    let marker = remote.marker;
    let directories = directories(remote);
    let suffix = remote.suffix;
    let names = executables.iter().map(Executable::remote_name);
    let names: Vec<String> = names.map(|name| format!("{name} {name}{suffix}")).collect();
    format!(
        "{PROLOGUE}; for d in {directories}; do [ -n \"$d\" ] && [ -d \"$d\" ] || continue; \
         for n in {}; do f=\"$d/$n\"; [ -f \"$f\" ] && [ -O \"$f\" ] || continue; rm -f \"$f\"; \
         [ -f \"$f\" ] && echo \"{marker} $f\"; done; done; echo \"{marker} done\"",
        names.join(" ")
    )
}

/// Starts the executable where it lies on the controller's own machine.
pub(super) fn start_here(executable: &Executable, options: &AgentOptions, marker: &str) -> String {
    let path = executable.path.to_string_lossy().replace('\'', r"'\''");
    let program = format!("'{path}' {}", first_argument(executable.role));
    // The executable is the user's own, so it is never removed.
    exec(&program, &AgentOptions { keep: true, ..options.clone() }, marker)
}

fn exec(program: &str, options: &AgentOptions, marker: &str) -> String {
    let mut line = format!("exec {program} --marker {marker}");
    if !options.keep {
        line.push_str(" --remove");
    }
    if 0 < options.nice {
        write!(line, " --nice {}", options.nice).unwrap_or_default();
    }
    for argument in &options.arguments {
        line.push(' ');
        line.push_str(argument);
    }
    line
}

fn uname_pattern(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::X86_64 => "x86_64|amd64",
        Architecture::Aarch64 => "aarch64|arm64",
    }
}

fn first_argument(role: Role) -> &'static str {
    match role {
        Role::Lean => "",
        Role::Controller => "agent",
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::executable::CLibrary;
    use super::*;

    fn controller() -> Executables {
        let (path, role) = ("/usr/bin/redoline".into(), Role::Controller);
        let machine = Architecture::X86_64;
        let bytes = b"controller".to_vec();
        Executables::new(vec![Executable::from_parts(path, role, machine, CLibrary::None, bytes)])
    }

    #[test]
    fn every_script_survives_the_quotes_of_every_login_shell() {
        let remote = Remote { marker: "ab12", directory: Some("/opt/redoline"), suffix: "" };
        let executables = controller();
        let executable = executables.iter().next().unwrap();
        let copy = Upload { marker: "ab12", directory: "/tmp", executable, suffix: "" };
        for script in [
            start(&remote, &executables, &AgentOptions::default()),
            upload(&copy),
            remove("/tmp", executable, ""),
            sweep(&remote, 0),
            clear(&remote, &executables),
            sweep(&remote, 60),
        ] {
            assert!(!script.contains(['\'', '!', '\n', '\\']), "{script}");
        }
    }

    #[test]
    fn the_controller_is_told_to_be_the_agent() {
        let remote = Remote { marker: "ab12", directory: None, suffix: "" };
        let options = AgentOptions { nice: 10, ..AgentOptions::default() };
        let script = start(&remote, &controller(), &options);
        let name = controller().iter().next().unwrap().remote_name();
        assert!(script.contains(&format!("x86_64|amd64) n={name}; ")), "{script}");
        assert!(script.contains("a=agent;"), "{script}");
        let exec = "exec \"$f\" $a --marker ab12 --remove --nice 10;";
        assert!(script.contains(exec), "{script}");
    }

    #[test]
    fn on_this_machine_nothing_is_removed() {
        let controller = controller();
        let executable = controller.iter().next().unwrap();
        let script = start_here(executable, &AgentOptions::default(), "ab12");
        assert_eq!(script, "exec '/usr/bin/redoline' agent --marker ab12");
    }
}
