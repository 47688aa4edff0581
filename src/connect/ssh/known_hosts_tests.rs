use std::process::Command;

use proptest::prelude::*;

use super::*;

/// A key blob of a type, told apart from others by its last byte.
fn blob(key_type: &str, number: u8) -> Vec<u8> {
    let mut blob = u32::try_from(key_type.len()).unwrap().to_be_bytes().to_vec();
    blob.extend(key_type.as_bytes());
    blob.push(number);
    blob
}

/// `ed25519:1` becomes the line's key type and blob.
fn key(short: &str) -> (String, Vec<u8>) {
    let (short_type, number) = short.split_once(':').unwrap();
    let key_type = match short_type {
        "ed25519" | "rsa" => format!("ssh-{short_type}"),
        curve => format!("ecdsa-sha2-{curve}"),
    };
    let blob = blob(&key_type, number.parse().unwrap());
    (key_type, blob)
}

/// Puts whole keys in the place of the `{type:number}` of a data file.
fn expand(line: &str) -> String {
    match line.split_once('{') {
        None => line.to_owned(),
        Some((before, rest)) => {
            let (short, after) = rest.split_once('}').unwrap();
            let (key_type, blob) = key(short);
            format!("{before}{key_type} {}{after}", BASE64.encode(blob))
        }
    }
}

fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Known => "known".to_owned(),
        Verdict::Unknown { stored_types } if stored_types.is_empty() => "unknown".to_owned(),
        Verdict::Unknown { stored_types } => format!("other {}", stored_types.join(",")),
        Verdict::Changed { line, .. } => format!("changed {line}"),
        Verdict::Revoked { line, .. } => format!("revoked {line}"),
    }
}

#[test]
fn every_line_of_the_table_holds() {
    let table = include_str!("known_hosts_cases.txt");
    let (file, questions) = table.split_once("=== questions\n").unwrap();
    let text: String = file.lines().map(|line| expand(line) + "\n").collect();
    let entries = parse(Path::new("table"), &text);
    for question in questions.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (asked, expected) = question.split_once("->").unwrap();
        let [host, port, short] = asked.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{question}")
        };
        let (key_type, blob) = key(short);
        let found = verdict(check(&entries, host, port.parse().unwrap(), &key_type, &blob));
        assert_eq!(found, expected.trim(), "{question}");
    }
}

#[test]
fn types_to_ask_for_are_those_stored_for_the_host_and_port() {
    let text = ["h {rsa:1}", "[h]:2222 {ed25519:1}", "h {nistp256:1}", "@revoked h {ed25519:2}"]
        .map(expand)
        .join("\n");
    let entries = parse(Path::new("f"), &text);
    assert_eq!(key_types_for(&entries, "H", 22), ["ssh-rsa", "ecdsa-sha2-nistp256"]);
    assert_eq!(key_types_for(&entries, "h", 2222), ["ssh-ed25519"]);
    assert!(key_types_for(&entries, "h", 2223).is_empty());
}

fn hashed_line(name: &str, salt: &[u8], key_type: &str, blob: &[u8]) -> String {
    let mut mac = Hmac::<Sha1>::new_from_slice(salt).unwrap();
    mac.update(name.as_bytes());
    let hash = BASE64.encode(mac.finalize().into_bytes());
    format!("|1|{}|{hash} {key_type} {}", BASE64.encode(salt), BASE64.encode(blob))
}

proptest! {
    #[test]
    fn a_hashed_name_matches_itself_and_no_other(
        host in "[a-z][a-z0-9.-]{0,30}",
        other in "[a-z][a-z0-9.-]{0,30}",
        port in 1_u16..,
        salt in proptest::collection::vec(any::<u8>(), 20),
    ) {
        let blob = blob("ssh-ed25519", 1);
        let line = hashed_line(&name_in_file(&host, port), &salt, "ssh-ed25519", &blob);
        let entries = parse(Path::new("f"), &line);
        let asked = |host: &str, port| check(&entries, host, port, "ssh-ed25519", &blob);
        prop_assert_eq!(asked(&host, port), Verdict::Known);
        prop_assert_eq!(asked(&other, port) == Verdict::Known, other == host);
        prop_assert_ne!(asked(&host, port.wrapping_add(1).max(1)), Verdict::Known);
    }

    #[test]
    fn no_text_makes_the_parser_fail(text in "\\PC{0,200}", lines in "(@?[a-z|!*,]{0,9} ?){0,9}") {
        parse(Path::new("f"), &text);
        parse(Path::new("f"), &lines);
    }

    #[test]
    fn a_glob_of_a_name_with_parts_left_out_matches_it(name in "[a-z0-9.]{1,20}", cut in 0_usize..20) {
        let cut = cut.min(name.len());
        let (head, tail) = name.split_at(cut);
        for pattern in [format!("{head}*{tail}"), format!("{head}*"), format!("*{tail}")] {
            prop_assert!(matches_glob(pattern.as_bytes(), name.as_bytes()));
        }
        prop_assert!(matches_glob("?".repeat(name.len()).as_bytes(), name.as_bytes()));
        prop_assert!(!matches_glob("?".repeat(name.len() + 1).as_bytes(), name.as_bytes()));
    }
}

#[test]
fn ssh_keygen_finds_the_same_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("known_hosts");
    let blob = blob("ssh-ed25519", 1);
    let text = format!(
        "{}\n{}\nc,d,!e {}\n*.example.com {}\n[f]:2222 {}\n",
        hashed_line("a", b"salt of twenty bytes", "ssh-ed25519", &blob),
        hashed_line("[b]:2222", b"salt of other twenty", "ssh-ed25519", &blob),
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AQ==",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AQ==",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AQ==",
    );
    std::fs::write(&path, &text).unwrap();
    let entries = parse(&path, &text);
    for (host, port) in [
        ("a", 22),
        ("a", 2222),
        ("b", 22),
        ("b", 2222),
        ("c", 22),
        ("e", 22),
        ("x.example.com", 22),
        ("example.com", 22),
        ("f", 22),
        ("f", 2222),
    ] {
        let name = name_in_file(host, port);
        let Ok(found) =
            Command::new("ssh-keygen").arg("-F").arg(&name).arg("-f").arg(&path).output()
        else {
            eprintln!("skipped: no ssh-keygen");
            return;
        };
        let ours = !key_types_for(&entries, host, port).is_empty();
        assert_eq!(ours, found.status.success(), "{name}");
    }
}
