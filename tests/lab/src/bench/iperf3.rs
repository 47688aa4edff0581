//! One run of iperf3, asked for the same as the agent.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::outcome::{GIB, Load, Outcome, WARM_UP_S};
use super::place::{Place, children_cpu_s, output_of};

const PORT: u16 = 5201;

/// CUBIC, TCP_NODELAY and buffers left to the system, as the agent's sockets are.
pub(super) fn run(place: &Place, load: Load, folder: &Path) -> Result<Outcome> {
    let logs = [folder.join("iperf3-server"), folder.join("iperf3-client")];
    for log in &logs {
        fs::write(log, "").with_context(|| format!("failed to write `{}`", log.display()))?;
    }
    let [server_log, client_log] = &logs;
    let cpu_before_s = children_cpu_s()?;
    let address = place.receiver_address()?.to_string();
    let port = PORT.to_string();
    let server = ["iperf3", "-s", "-1", "-J", "-B", &address, "-p", &port];
    let mut server = place.start_receiver(&server, PORT, server_log)?;
    let client = client_arguments(&address, &port, load);
    let client: Vec<&str> = client.iter().map(String::as_str).collect();
    let mut client = place.start_sender(&client, client_log)?;
    let deadline = Duration::from_secs(u64::from(load.whole_seconds()) + 20);
    let ended = client.wait(deadline)?;
    server.wait(Duration::from_secs(10))?;
    let result: Value = serde_json::from_str(&output_of(client_log)?)
        .with_context(|| format!("iperf3 gave no result ({ended})"))?;
    outcome(&result, children_cpu_s()? - cpu_before_s)
}

fn client_arguments(address: &str, port: &str, load: Load) -> Vec<String> {
    let mut argv: Vec<String> = ["iperf3", "-J", "-c", address, "-p", port, "-N", "-C", "cubic"]
        .map(str::to_owned)
        .to_vec();
    argv.push(format!("-P{}", load.streams));
    argv.push(format!("-l{}", load.message_bytes));
    argv.push(format!("-t{}", load.seconds));
    argv.push(format!("-O{WARM_UP_S}"));
    argv
}

/// iperf3's totals leave out what its intervals mark as omitted; its CPU time does not.
fn outcome(result: &Value, cpu_s: f64) -> Result<Outcome> {
    let error = &result["error"];
    ensure!(error.is_null(), "iperf3 failed: {error}");
    let bits_per_second = result["end"]["sum_received"]["bits_per_second"].as_f64();
    let bytes_per_second = bits_per_second.context("iperf3 tells no rate")? / 8.0;
    let intervals = result["intervals"].as_array().context("iperf3 tells no intervals")?;
    let bytes: f64 = intervals.iter().filter_map(|each| each["sum"]["bytes"].as_f64()).sum();
    ensure!(bytes > 0.0 && bytes_per_second > 0.0, "iperf3 sent nothing");
    Ok(Outcome {
        bytes_per_second,
        cpu_s_per_gib: cpu_s / (bytes / GIB),
        steady_bytes_per_second: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn omitted_bytes_count_for_the_cost_and_not_for_the_rate() {
        let result = json!({
            "intervals": [
                { "sum": { "bytes": 1_073_741_824_u64, "omitted": true } },
                { "sum": { "bytes": 3_221_225_472_u64, "omitted": false } },
            ],
            "end": { "sum_received": { "bits_per_second": 800.0 } },
        });
        let outcome = outcome(&result, 2.0).unwrap();
        assert_eq!(outcome.bytes_per_second, 100.0);
        assert_eq!(outcome.cpu_s_per_gib, 0.5);
    }

    #[test]
    fn a_failure_is_told_in_the_words_of_iperf3() {
        let error = outcome(&json!({ "error": "unable to connect" }), 1.0).unwrap_err();
        assert_eq!(error.to_string(), "iperf3 failed: \"unable to connect\"");
    }
}
