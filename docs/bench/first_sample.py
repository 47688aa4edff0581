#!/usr/bin/env python3
"""From the command to the first sample on four SSH nodes, beside `ansible all -m ping`, interleaved.

usage: first_sample.py LAB_DIR [ROUNDS]

LAB_DIR is the folder that `cargo run -p redoline-lab -- up` prints (inventory.yaml, id_ed25519,
known_hosts). Needs a release build of redoline and of its agent, and ansible on the PATH.
"""

import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
REDOLINE = ROOT / "target/release/redoline"
RUNBOOK = """\
name: First sample
agent: keep
steps:
  - name: One stream
    throughput: { num_conn: 1, duration: 300 ms }
"""


def ansible_inventory(lab, folder):
    nodes = re.findall(r"name: (\w+),.*?host: ([\d.]+)", (lab / "inventory.yaml").read_text())
    lines = [
        f"{name} ansible_host={host} ansible_user=oracle "
        f"ansible_ssh_private_key_file={lab}/id_ed25519 "
        "ansible_python_interpreter=/usr/bin/python3"
        for name, host in nodes
    ]
    (folder / "hosts").write_text("\n".join(lines) + "\n")
    (folder / "ansible.cfg").write_text(
        "[ssh_connection]\n"
        f"ssh_args = -o UserKnownHostsFile={lab}/known_hosts -o ControlMaster=no\n"
    )


def ansible(folder):
    started = time.monotonic()
    subprocess.run(
        ["ansible", "-i", "hosts", "all", "-m", "ping", "-f", "8"],
        cwd=folder, check=True, stdout=subprocess.DEVNULL,
    )
    return time.monotonic() - started


def redoline(lab, folder):
    """Until the first rate is shown, which the first sample makes."""
    started = time.monotonic()
    process = subprocess.Popen(
        [REDOLINE, "run", "runbook.yaml", "-i", lab / "inventory.yaml", "-o", "runs"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )
    lines, first = [], None
    for line in process.stderr:
        lines.append(line)
        if first is None and re.search(r"[\d.]+ [kMG]?bit/s", line):
            first = time.monotonic() - started
    if process.wait() != 0 or first is None:
        sys.exit("".join(lines))
    return first


def main():
    lab = pathlib.Path(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "runbook.yaml").write_text(RUNBOOK)
        ansible_inventory(lab, folder)
        redoline(lab, folder)  # puts the agent there, to be kept
        ansible(folder)
        times = {"redoline": [], "ansible": []}
        for _ in range(rounds):
            times["redoline"].append(redoline(lab, folder))
            times["ansible"].append(ansible(folder))
    medians = {who: statistics.median(seconds) for who, seconds in times.items()}
    for who, seconds in times.items():
        print(f"{who:9} median {medians[who]:.2f} s   range {min(seconds):.2f}–{max(seconds):.2f} s")
    print(f"ratio of the medians {medians['ansible'] / medians['redoline']:.1f}")


if __name__ == "__main__":
    main()
