//! Whole jobs on files of a temporary directory.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redoline_proto::storage::{
    StorageEvent, StorageJob, StoragePattern, StoragePoint, StoragePrepared, StorageResult,
    StorageTarget,
};
use redoline_proto::transfer::{Guard, JobId, StopCause, Stopped};
use redoline_proto::units::{Bytes, BytesPerSecond};

use super::engine::{self, Allowed};
use super::offsets::SplitMix64;
use super::point::{self, Setting, Task};
use super::target::{Expected, open_existing, refuse_memory};
use super::watch::Watch;
use super::{run, run_with};
use crate::jobs::cancel::CancelFlag;

/// The kernel counts what a process reads, so jobs run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

const SINGLE_BLOCK: StoragePoint = StoragePoint {
    pattern: StoragePattern::SingleBlock,
    request_bytes: 8192,
    outstanding: 3,
    duration_ms: 300,
};
const DIRECT_PATH: StoragePoint = StoragePoint {
    pattern: StoragePattern::DirectPath,
    request_bytes: 1 << 20,
    outstanding: 4,
    duration_ms: 300,
};

fn job(target: StorageTarget, points: &[StoragePoint]) -> StorageJob {
    StorageJob {
        job: JobId(1),
        target,
        points: points.to_vec(),
        sample: Duration::from_millis(50),
        guard: Guard::default(),
        seed: 42,
        prepare_deadline: Duration::from_secs(60),
        rate: None,
    }
}

fn file(path: &Path) -> StorageTarget {
    StorageTarget::File(path.display().to_string())
}

fn scratch(dir: &Path, mebibytes: u64) -> StorageTarget {
    StorageTarget::Scratch { dir: dir.display().to_string(), size: Bytes(mebibytes * Bytes::MIB) }
}

#[derive(Debug, Default)]
struct Outcome {
    prepared: Option<StoragePrepared>,
    remarks: Vec<String>,
    results: Vec<StorageResult>,
    stopped: Option<Stopped>,
    ends: u32,
}

impl Outcome {
    fn take(&mut self, event: StorageEvent) {
        assert_eq!(self.ends, 0, "an event after the end: {event:?}");
        match event {
            StorageEvent::Prepared(prepared) => self.prepared = Some(prepared),
            StorageEvent::Progress(progress) => self.remarks.push(progress.text),
            StorageEvent::Result(result) => self.results.push(*result),
            StorageEvent::End { stopped } => {
                self.stopped = stopped;
                self.ends += 1;
            }
        }
    }
}

fn outcome(job: &StorageJob) -> Outcome {
    let mut outcome = Outcome::default();
    run(job.clone(), &CancelFlag::new(), |event| outcome.take(event));
    assert_eq!(outcome.ends, 1);
    outcome
}

/// Files in memory are refused, and temporary directories may lie there.
fn disk_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let handle = File::open(dir.path()).unwrap();
    match refuse_memory(handle.as_fd(), "") {
        Ok(()) => dir,
        Err(_) => tempfile::tempdir_in("/var/tmp").unwrap(),
    }
}

fn data_file(dir: &Path, mebibytes: usize) -> std::path::PathBuf {
    let path = dir.join("data.dbf");
    let mut random = SplitMix64::new(3, 0);
    let content: Vec<u8> = (0..mebibytes << 17).flat_map(|_| random.next().to_le_bytes()).collect();
    let mut file = File::create(&path).unwrap();
    file.write_all(&content).unwrap();
    file.sync_all().unwrap();
    path
}

fn assert_adds_up(result: &StorageResult) {
    assert!(result.reads > 0, "{result:?}");
    assert_eq!(result.short_reads, 0);
    assert_eq!(result.bytes, result.reads * result.point.request_bytes);
    // Reads that were outstanding at the end of the window have a latency, too.
    let begun = result.reads..=result.reads + u64::from(result.point.outstanding);
    assert!(begun.contains(&result.latency.count), "{result:?}");
    let in_buckets: u64 = result.latency.buckets.iter().map(|bucket| bucket.count).sum();
    assert_eq!(in_buckets, result.latency.count);
    let in_samples: u64 = result.samples.iter().map(|sample| sample.reads).sum();
    assert_eq!(in_samples, result.reads);
    let sampled_bytes: u64 = result.samples.iter().map(|sample| sample.bytes).sum();
    assert_eq!(sampled_bytes, result.bytes);
    for pair in result.samples.windows(2) {
        assert_eq!(pair[0].to_ns, pair[1].from_ns);
    }
    // The window, neither with what came before it nor with the reads that it left outstanding.
    assert_eq!(result.elapsed_ns, result.point.duration_ms * 1_000_000);
    assert!(result.latency.min_us <= result.latency.p50_us);
    assert!(result.latency.p999_us <= result.latency.max_us);
}

#[test]
fn a_scratch_file_is_read_in_both_patterns_and_leaves_nothing() {
    let _alone = alone();
    let dir = disk_dir();
    let outcome = outcome(&job(scratch(dir.path(), 32), &[SINGLE_BLOCK, DIRECT_PATH]));
    assert_eq!(outcome.stopped, None);
    let prepared = outcome.prepared.unwrap();
    assert_eq!((prepared.size_bytes, prepared.scratch), (32 << 20, true));
    assert_eq!(prepared.zero_block_share, Some(0.0));
    assert_eq!(outcome.results.len(), 2);
    outcome.results.iter().for_each(assert_adds_up);
    assert_eq!(outcome.results[0].engine, "pread");
    for ratio in outcome.results.iter().map(|result| result.device_read_ratio.unwrap()) {
        // More than 1 when the process reads something else meanwhile, its own code for example.
        assert!((0.95..1.5).contains(&ratio), "{ratio}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_scratch_file_has_no_name_while_it_is_read() {
    let _alone = alone();
    let dir = disk_dir();
    let mut names = Vec::new();
    run(job(scratch(dir.path(), 8), &[SINGLE_BLOCK]), &CancelFlag::new(), |_| {
        names.extend(fs::read_dir(dir.path()).unwrap().flatten());
    });
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn a_cancelled_job_ends_early_and_leaves_nothing() {
    let _alone = alone();
    let dir = disk_dir();
    let long = StoragePoint { duration_ms: 3_600_000, ..DIRECT_PATH };
    let cancel = CancelFlag::new();
    let mut outcome = Outcome::default();
    run(job(scratch(dir.path(), 8), &[long]), &cancel, |event| {
        if matches!(event, StorageEvent::Prepared(_)) {
            cancel.set();
        }
        outcome.take(event);
    });
    assert_eq!(outcome.stopped.unwrap().cause, StopCause::Cancelled);
    assert!(outcome.results.is_empty());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_preparation_ends_at_its_deadline() {
    let _alone = alone();
    let dir = disk_dir();
    let mut job = job(scratch(dir.path(), 64), &[SINGLE_BLOCK]);
    job.rate = Some(BytesPerSecond(1e6));
    job.prepare_deadline = Duration::from_millis(100);
    let outcome = outcome(&job);
    assert_eq!(outcome.stopped.unwrap().cause, StopCause::Deadline);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn an_existing_file_is_read_and_stays_as_it_was() {
    let _alone = alone();
    let dir = disk_dir();
    let path = data_file(dir.path(), 8);
    let (before, content) = (fs::metadata(&path).unwrap(), fs::read(&path).unwrap());
    let outcome = outcome(&job(file(&path), &[SINGLE_BLOCK, DIRECT_PATH]));
    assert_eq!(outcome.stopped, None);
    outcome.results.iter().for_each(assert_adds_up);
    let after = fs::metadata(&path).unwrap();
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert!(fs::read(&path).unwrap() == content);
}

#[test]
fn a_source_cannot_be_written_through() {
    let dir = disk_dir();
    let path = data_file(dir.path(), 1);
    let source = open_existing(&path.display().to_string(), Expected::RegularFile).unwrap();
    let error = source.file.write_at(&[0; 4096], 0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBADF));
}

#[test]
fn both_engines_count_alike() {
    let _alone = alone();
    let dir = disk_dir();
    let path = data_file(dir.path(), 8);
    let mut engines = Vec::new();
    for allowed in [Allowed::All, Allowed::ThreadsOnly] {
        let mut outcome = Outcome::default();
        run_with(&job(file(&path), &[DIRECT_PATH]), allowed, &CancelFlag::new(), |event| {
            outcome.take(event);
        });
        assert_eq!(outcome.stopped, None);
        let result = &outcome.results[0];
        assert_adds_up(result);
        if let Some(ratio) = result.device_read_ratio {
            assert!((0.95..1.5).contains(&ratio), "{ratio} with {}", result.engine);
        }
        engines.push(result.engine.clone());
    }
    assert_eq!(engines[1], "threads");
}

#[test]
fn a_sparse_file_is_seen_to_come_from_no_disk() {
    let _alone = alone();
    let dir = disk_dir();
    let path = dir.path().join("sparse");
    File::create(&path).unwrap().set_len(64 << 20).unwrap();
    let outcome = outcome(&job(file(&path), &[SINGLE_BLOCK]));
    assert_eq!(outcome.prepared.unwrap().zero_block_share, Some(1.0));
    let ratio = outcome.results[0].device_read_ratio.unwrap();
    assert!(ratio < 0.01, "{ratio}");
    assert!(outcome.remarks.iter().any(|text| text.contains("never written")));
}

#[test]
fn a_rate_is_kept_by_both_patterns() {
    let _alone = alone();
    let dir = disk_dir();
    let path = data_file(dir.path(), 8);
    let mut job = job(
        file(&path),
        &[
            StoragePoint { duration_ms: 1000, ..SINGLE_BLOCK },
            StoragePoint { duration_ms: 1000, ..DIRECT_PATH },
        ],
    );
    job.rate = Some(BytesPerSecond(8.0 * 1024.0 * 1024.0));
    let outcome = outcome(&job);
    assert_eq!(outcome.stopped, None);
    for result in &outcome.results {
        // What may be caught up comes on top.
        let most = 1.2 * 8.0 * result.elapsed_ns as f64 / 1e9 + 1.0;
        assert!((result.bytes as f64) < most * 1_048_576.0, "{result:?}");
        assert_adds_up(result);
    }
}

#[test]
fn the_next_sequential_point_goes_on_where_the_last_one_ended() {
    let _alone = alone();
    let dir = disk_dir();
    let path = data_file(dir.path(), 8).display().to_string();
    let source = Arc::new(open_existing(&path, Expected::RegularFile).unwrap());
    let point = StoragePoint { outstanding: 1, ..DIRECT_PATH };
    let blocks = point::check(&point, &source).unwrap();
    let choice = engine::choose(&source, &point, false, Allowed::All);
    let setting = Setting {
        source,
        sample: Duration::from_millis(50),
        seed: 1,
        pace: None,
        cancel: &CancelFlag::new(),
    };
    let mut watch = Watch::new(Guard::default(), Instant::now());
    let mut position = 0;
    let mut reads = 0;
    for index in 0..2 {
        let task = Task { index, point: &point, choice: choice.clone() };
        let result = point::run(&setting, task, &mut position, &mut watch, |_| ()).unwrap();
        reads += result.reads;
        // One read of each point may have ended after its window.
        let late = (0..=index as u64 + 1).map(|late| blocks.offset(reads + late));
        assert!(late.clone().any(|expected| expected == position), "{position} {reads}");
    }
}

#[test]
fn a_file_that_shrinks_is_not_measured() {
    let _alone = alone();
    let dir = disk_dir();
    let path = data_file(dir.path(), 8);
    for point in [SINGLE_BLOCK, DIRECT_PATH] {
        fs::write(&path, vec![1; 8 << 20]).unwrap();
        let mut outcome = Outcome::default();
        run(job(file(&path), &[point]), &CancelFlag::new(), |event| {
            if matches!(event, StorageEvent::Prepared(_)) {
                File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
            }
            outcome.take(event);
        });
        assert!(outcome.results.is_empty());
        let text = outcome.stopped.unwrap().text;
        assert!(text.contains("became shorter"), "{text}");
    }
}

#[track_caller]
fn check_refused(job: &StorageJob, parts: &[&str]) {
    let outcome = outcome(job);
    assert!(outcome.results.is_empty());
    let stopped = outcome.stopped.expect("the job must be refused");
    assert_eq!(stopped.cause, StopCause::System);
    for part in parts {
        assert!(stopped.text.contains(part), "`{part}` is not in: {}", stopped.text);
    }
}

#[test]
fn a_refusal_names_the_path_and_the_way_out() {
    let dir = disk_dir();
    let missing = dir.path().join("missing.dbf");
    check_refused(
        &job(file(&missing), &[SINGLE_BLOCK]),
        &["missing.dbf", "check the path on this node", "No such file"],
    );
    check_refused(&job(file(dir.path()), &[SINGLE_BLOCK]), &["is a directory", "device:"]);
    check_refused(
        &job(file(Path::new("/dev/null")), &[SINGLE_BLOCK]),
        &["/dev/null", "a character device"],
    );
    let path = data_file(dir.path(), 1);
    let device = StorageTarget::Device(path.display().to_string());
    check_refused(&job(device, &[SINGLE_BLOCK]), &["is a regular file", "file:"]);
    let nowhere = scratch(&dir.path().join("nowhere"), 8);
    check_refused(&job(nowhere, &[SINGLE_BLOCK]), &["scratch directory", "nowhere"]);
    let huge = scratch(dir.path(), 1 << 40);
    check_refused(&job(huge, &[SINGLE_BLOCK]), &["does not fit", "must stay free"]);
}

#[test]
fn a_file_smaller_than_one_request_is_refused() {
    let dir = disk_dir();
    let path = dir.path().join("small");
    fs::write(&path, [1; 8192]).unwrap();
    check_refused(&job(file(&path), &[DIRECT_PATH]), &["holds 8192 bytes", "1048576"]);
}

#[test]
fn points_that_make_no_sense_are_refused() {
    let dir = disk_dir();
    let path = data_file(dir.path(), 1);
    for (point, part) in [
        (StoragePoint { outstanding: 0, ..SINGLE_BLOCK }, "1 to 256"),
        (StoragePoint { request_bytes: 0, ..SINGLE_BLOCK }, "32 MiB"),
        (StoragePoint { request_bytes: 1000, ..SINGLE_BLOCK }, "a multiple of"),
    ] {
        check_refused(&job(file(&path), &[point]), &[part]);
    }
}

#[test]
fn a_point_that_would_take_too_much_memory_is_refused_before_anything_is_opened() {
    let missing = file(Path::new("/nowhere/data.dbf"));
    let point = StoragePoint { outstanding: 256, request_bytes: 2 << 20, ..DIRECT_PATH };
    check_refused(&job(missing, &[point]), &["256 reads of 2 MiB", "512 MiB", "256 MiB is the"]);
}

#[test]
fn a_loaded_host_is_not_read_from() {
    let dir = disk_dir();
    let path = data_file(dir.path(), 1);
    let mut job = job(file(&path), &[SINGLE_BLOCK]);
    job.guard = Guard { cpu_share_max: None, load_max: Some(f64::MIN_POSITIVE) };
    let outcome = outcome(&job);
    // A host without any load may be read from.
    if let Some(stopped) = outcome.stopped {
        assert_eq!(stopped.cause, StopCause::Limit);
        assert!(stopped.text.contains("no test starts"), "{}", stopped.text);
        assert_eq!(outcome.prepared, None);
    }
}
