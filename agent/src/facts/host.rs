//! The machine and its system: name, release, processors, memory, load, user.

use redoline_proto::facts::HostFacts;

use super::root::Root;

/// Everything of `HostFacts` that is neither network, storage nor Oracle software.
pub fn read(root: &Root, effective_user_id: u32) -> HostFacts {
    let passwd = root.text("/etc/passwd").unwrap_or_default();
    HostFacts {
        hostname: root.text("/proc/sys/kernel/hostname").unwrap_or_default(),
        os_release: os_release(root).unwrap_or_default(),
        kernel: root.text("/proc/sys/kernel/osrelease").unwrap_or_default(),
        architecture: std::env::consts::ARCH.to_owned(),
        cpus: root.text("/sys/devices/system/cpu/online").and_then(|text| count_cpus(&text)),
        cpu_model: root.text("/proc/cpuinfo").and_then(|text| cpu_model(&text)),
        memory_bytes: root.text("/proc/meminfo").and_then(|text| memory_bytes(&text)),
        load_1min: root.text("/proc/loadavg").and_then(|text| load_1min(&text)),
        effective_user_id,
        user: user_name(&passwd, effective_user_id)
            .unwrap_or_else(|| format!("uid {effective_user_id}")),
        ..HostFacts::default()
    }
}

fn os_release(root: &Root) -> Option<String> {
    ["/etc/os-release", "/usr/lib/os-release"]
        .iter()
        .find_map(|path| pretty_name(&root.text(path)?))
        .or_else(|| root.text("/etc/redhat-release"))
}

/// os-release(5): shell assignments, quoted or not.
fn pretty_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.trim().strip_prefix("PRETTY_NAME="))?;
    let name = value.trim().trim_matches(['"', '\'']);
    (!name.is_empty()).then(|| name.to_owned())
}

/// `0-3,8` is five processors.
fn count_cpus(online: &str) -> Option<u32> {
    online
        .trim()
        .split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            Some(last.checked_sub(first)? + 1)
        })
        .sum()
}

/// Arm processors have no such line: then it is unknown.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let (_, model) = cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == "model name")?;
    Some(model.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
}

/// `kB` in /proc/meminfo are of 1024 bytes (proc_meminfo(5)).
fn memory_bytes(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn load_1min(loadavg: &str) -> Option<f64> {
    loadavg.split_ascii_whitespace().next()?.parse().ok()
}

/// Users of a directory service are not in /etc/passwd: then the number stands for the name.
fn user_name(passwd: &str, user_id: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(user_id)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::super::root::tree;
    use super::*;

    const ORACLE_LINUX_7: &str = "NAME=\"Oracle Linux Server\"\nVERSION=\"7.9\"\nID=\"ol\"\n\
        PRETTY_NAME=\"Oracle Linux Server 7.9\"\nORACLE_BUGZILLA_PRODUCT=\"Oracle Linux 7\"\n";
    const ORACLE_LINUX_8: &str = "NAME=\"Oracle Linux Server\"\nPLATFORM_ID=\"platform:el8\"\n\
        PRETTY_NAME=\"Oracle Linux Server 8.10\"\nANSI_COLOR=\"0;31\"\n";
    const DEBIAN_12: &str = "PRETTY_NAME='Debian GNU/Linux 12 (bookworm)'\nNAME=Debian\n";

    #[test]
    fn releases_are_named_as_their_makers_do() {
        assert_eq!(pretty_name(ORACLE_LINUX_7).unwrap(), "Oracle Linux Server 7.9");
        assert_eq!(pretty_name(ORACLE_LINUX_8).unwrap(), "Oracle Linux Server 8.10");
        assert_eq!(pretty_name(DEBIAN_12).unwrap(), "Debian GNU/Linux 12 (bookworm)");
        assert_eq!(pretty_name("NAME=x\nPRETTY_NAME=\n"), None);
    }

    #[test]
    fn processors_are_counted_with_gaps() {
        assert_eq!(count_cpus("0-3,8\n"), Some(5));
        assert_eq!(count_cpus("0"), Some(1));
        assert_eq!(count_cpus("0-1,4-7,63"), Some(7));
        assert_eq!(count_cpus(""), None);
        assert_eq!(count_cpus("3-1"), None);
    }

    #[test]
    fn a_processor_without_a_model_is_unknown() {
        let intel = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R)  Gold 6248\n";
        assert_eq!(cpu_model(intel).unwrap(), "Intel(R) Xeon(R) Gold 6248");
        assert_eq!(cpu_model("processor\t: 0\nCPU implementer\t: 0x41\n"), None);
    }

    #[test]
    fn memory_is_in_bytes() {
        assert_eq!(memory_bytes("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16_777_216));
        assert_eq!(memory_bytes("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn a_node_is_read_and_what_is_missing_is_unknown() {
        let (_dir, root) = tree(&[
            ("/etc/os-release", ORACLE_LINUX_8),
            ("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\noracle:x:54321:54321::/h:/bin/sh\n"),
            ("/proc/sys/kernel/hostname", "ash1\n"),
            ("/proc/sys/kernel/osrelease", "5.15.0-206.153.7.el8uek.x86_64\n"),
            ("/proc/loadavg", "0.42 0.30 0.20 1/200 1234\n"),
        ]);
        let facts = read(&root, 54_321);
        assert_eq!((facts.hostname.as_str(), facts.user.as_str()), ("ash1", "oracle"));
        assert_eq!(facts.kernel, "5.15.0-206.153.7.el8uek.x86_64");
        assert_eq!((facts.load_1min, facts.memory_bytes, facts.cpus), (Some(0.42), None, None));
        assert_eq!(read(&root, 7).user, "uid 7");
    }
}
