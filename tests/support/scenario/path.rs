//! What a path does to a test: rates, round trips, and what the kernels would have counted.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redoline_proto::handshake::ClockOffset;
use redoline_proto::tcp_info::TcpInfo;
use redoline_proto::transfer::{Connected, Reading, Sample, StreamEnd, StreamStart, TransferEnd};
use redoline_proto::units::{Bytes, BytesPerSecond, Share};

use super::planted::{Planted, Work};
use super::{Hosts, Network, optional, quantity, time};
use crate::record::measurement::EndRecord;

/// Payload of an Ethernet packet of 1500 bytes with TCP timestamps.
const PAYLOAD: f64 = 1448.0 / 1500.0;
const MSS: u64 = 1448;
/// What goes over a connection before its test.
const TOKEN: u64 = 16;
const SAMPLE_NS: i64 = 250_000_000;
/// Part of a send buffer that carries data; the rest is the kernel's own.
const USABLE: f64 = 0.7;

/// A direction of the path with the settings of its two ends.
#[derive(Clone, Debug)]
pub struct Path {
    pub rtt_us: u64,
    pub jitter_us: u64,
    pub competing: u32,
    pub link: f64,
    pub per_flow: f64,
    pub queue_us: u64,
    pub loss: f64,
    pub dropped: f64,
    pub ramp_loss: f64,
    pub noise: f64,
    pub second_pair: f64,
    pub jumbo_gain: f64,
    /// Of the way between the interfaces.
    pub mtu: u32,
    pub falls_to: f64,
    pub stall_us: u64,
    pub send_max: u64,
    pub receive_max: u64,
    pub core_max: u64,
    pub cpu_rate: f64,
    pub congestion_control: String,
    pub old_kernel: bool,
    pub bursts_us: u64,
    pub planted: Planted,
}

/// One pair's part of a test.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    pub pair: usize,
    /// Pairs that share the link meanwhile.
    pub sharing: usize,
    pub num_conn: u32,
    pub buffer: Option<u64>,
    pub mtu: Option<u32>,
    pub rate_limit: Option<BytesPerSecond>,
    pub seconds: i64,
    pub start_ns: i64,
    pub seed: u64,
    /// Encrypted or compressed.
    pub coded: bool,
}

/// What holds a flow.
#[derive(Clone, Copy, Debug)]
struct Held {
    aggregate: f64,
    /// A queue stands on the way.
    queue: bool,
    send_buffer_share: f64,
    receive_window_share: f64,
    send_buffer: u64,
    receive_buffer: u64,
    cpu_full: bool,
    /// Held by the receiver's processor, and by its process without one.
    receiver_full: bool,
    unread: bool,
}

impl Path {
    pub fn of(network: &Network, hosts: &Hosts) -> Self {
        let rate = |text: Option<&String>| {
            optional::<BytesPerSecond>(text).map_or(f64::INFINITY, |rate| rate.0)
        };
        let share =
            |text: Option<&String>, or: f64| optional::<Share>(text).map_or(or, |share| share.0);
        let bytes =
            |text: Option<&String>, or: u64| optional::<Bytes>(text).map_or(or, |bytes| bytes.0);
        let micros = |text: Option<&String>| text.map_or(0, |text| time(text).as_micros() as u64);
        Self {
            rtt_us: micros(network.rtt.as_ref()).max(20),
            jitter_us: micros(network.jitter.as_ref()),
            competing: network.competing,
            link: rate(network.link.as_ref()) * PAYLOAD,
            per_flow: rate(network.per_flow.as_ref()) * PAYLOAD,
            queue_us: micros(network.queue.as_ref()),
            loss: share(network.loss.as_ref(), 0.0),
            dropped: share(network.dropped.as_ref(), 0.0),
            ramp_loss: share(network.ramp_loss.as_ref(), 0.0),
            noise: share(network.noise.as_ref(), 0.01),
            second_pair: share(network.second_pair.as_ref(), 1.0),
            jumbo_gain: share(network.jumbo_gain.as_ref(), 0.0),
            mtu: network.mtu.unwrap_or(9000),
            falls_to: share(network.falls_to.as_ref(), 1.0),
            stall_us: micros(network.stall.as_ref()),
            send_max: bytes(hosts.send_buffer_max.as_ref(), 4 << 20),
            receive_max: bytes(hosts.receive_buffer_max.as_ref(), 6 << 20),
            core_max: bytes(hosts.fixed_buffer_max.as_ref(), 212_992),
            cpu_rate: rate(hosts.cpu_rate.as_ref()),
            congestion_control: hosts
                .congestion_control
                .clone()
                .unwrap_or_else(|| "cubic".to_owned()),
            old_kernel: hosts.old_kernel,
            bursts_us: micros(hosts.bursts.as_ref()),
            planted: Planted::of(network, hosts),
        }
    }

    fn held(&self, test: Test) -> Held {
        let rtt = self.rtt_us as f64 / 1e6;
        let fixed = test.buffer.map(|asked| 2 * asked.min(self.core_max));
        let (send, receive) = (fixed.unwrap_or(self.send_max), fixed.unwrap_or(self.receive_max));
        let by_send = send as f64 * USABLE / rtt;
        let by_receive = receive as f64 / 2.0 / rtt;
        let by_loss = match self.loss {
            loss if loss > 0.0 => 1.22 * MSS as f64 / (rtt * loss.sqrt()),
            _ => f64::INFINITY,
        };
        let own = self.per_flow * if test.pair == 0 { 1.0 } else { self.second_pair };
        let jumbo =
            if test.mtu == Some(9000) && self.mtu >= 9000 { 1.0 + self.jumbo_gain } else { 1.0 };
        let planted = &self.planted;
        let reader = planted.receiver_rate.min(planted.reader_rate);
        let coding = if test.coded { planted.coding_rate } else { f64::INFINITY };
        let node = self.cpu_rate.min(reader).min(coding);
        let flow = own.min(by_send).min(by_receive).min(by_loss).min(node) * jumbo;
        let demand = flow * f64::from(test.num_conn);
        let ours = f64::from(test.num_conn);
        let link = self.link / test.sharing as f64 * ours / (ours + f64::from(self.competing));
        let limit = test.rate_limit.map_or(f64::INFINITY, |limit| limit.0);
        let aggregate = demand.min(link).min(limit);
        let network = aggregate < limit && (demand > link || flow >= own * 0.999);
        let queue = network && self.queue_us > 0;
        let window = !network && aggregate < limit && flow < by_loss.min(node);
        let cpu_full = flow >= self.cpu_rate.min(coding) * 0.999 && aggregate < link;
        let of_reader = flow >= reader * 0.999 && aggregate < link;
        let wanted = 4 * (aggregate / f64::from(test.num_conn) * rtt) as u64 + 87_380;
        Held {
            aggregate,
            queue,
            // Auto-tuning on its way and a full queue count too: the trap for a naive verdict.
            send_buffer_share: match window && by_send <= by_receive {
                true if self.bursts_us > 0 => 0.0,
                true => 0.93,
                false => 0.42,
            },
            receive_window_share: match window && by_receive < by_send || of_reader {
                true => 0.95,
                false => 0.05,
            },
            send_buffer: fixed.unwrap_or(if window { send } else { wanted.min(send) }),
            receive_buffer: fixed.unwrap_or(if window { receive } else { wanted.min(receive) }),
            cpu_full,
            receiver_full: of_reader && planted.receiver_rate <= planted.reader_rate,
            unread: of_reader,
        }
    }

    /// The sender's record and the receiver's.
    pub fn transfer(
        &self,
        test: Test,
        sender: ClockOffset,
        receiver: ClockOffset,
    ) -> (EndRecord, EndRecord) {
        let held = self.held(test);
        let samples = self.samples(test, held.aggregate, receiver.offset_ns);
        let streams = test.num_conn as usize;
        let mut received = vec![0; streams];
        for sample in &samples {
            for (total, bytes) in received.iter_mut().zip(&sample.stream_bytes) {
                *total += bytes;
            }
        }
        let span = (samples[0].from_ns, samples[samples.len() - 1].to_ns);
        let readings = self.readings(test, &held, sender.offset_ns, &received);
        let end = |clock: ClockOffset| EndRecord {
            clock: Some(clock),
            connected: Some(self.connected(test, &held, clock)),
            started_ns: Some(test.start_ns + clock.offset_ns),
            ..EndRecord::default()
        };
        let ends = |extra: u64, receiving: bool| -> Vec<StreamEnd> {
            received
                .iter()
                .enumerate()
                .map(|(stream, bytes)| StreamEnd {
                    stream: stream as u32,
                    bytes: bytes + extra,
                    first_byte_ns: receiving.then_some(span.0),
                    last_byte_ns: receiving.then_some(span.1),
                    tcp: if receiving {
                        TcpInfo {
                            advmss_bytes: Some(u64::from(self.planted.interface_mtu) - 52),
                            ..TcpInfo::default()
                        }
                    } else {
                        self.last(test, &held, *bytes)
                    },
                    send_buffer_bytes: held.send_buffer,
                    receive_buffer_bytes: held.receive_buffer,
                    drained: true,
                })
                .collect()
        };
        let total: u64 = received.iter().sum();
        let done = |clock: ClockOffset, streams, receiving: bool| {
            let work = self.work(test, &held, total, receiving);
            TransferEnd {
                streams,
                cpu: self.planted.cpu(work),
                stopped: None,
                strangers: 0,
                at_ns: test.start_ns + test.seconds * 1_000_000_000 + clock.offset_ns,
                acknowledgements: None,
                interfaces: self.planted.interfaces(work),
                softnet: Some(self.planted.softnet()),
            }
        };
        (
            EndRecord { readings, end: Some(done(sender, ends(0, false), false)), ..end(sender) },
            EndRecord { samples, end: Some(done(receiver, ends(0, true), true)), ..end(receiver) },
        )
    }

    fn work(&self, test: Test, held: &Held, bytes: u64, receiving: bool) -> Work {
        let full = if receiving { held.receiver_full } else { held.cpu_full };
        let quota = if receiving { self.planted.receiver_quota } else { self.planted.sender_quota };
        let quota = quota.filter(|_| full);
        Work {
            receiving,
            bytes,
            packets: bytes / MSS,
            seconds: test.seconds,
            thread: quota.unwrap_or(if full { 0.97 } else { self.planted.thread }),
            kept: quota.map_or(0.0, |quota| 0.97 - quota),
            throttled: quota.is_some(),
        }
    }

    /// Both ends of a connection that stands and gets nothing through.
    pub fn stuck(
        &self,
        test: Test,
        sender: ClockOffset,
        receiver: ClockOffset,
    ) -> (EndRecord, EndRecord) {
        let (mut from, mut to) = self.transfer(test, sender, receiver);
        to.samples.clear();
        let silent = |end: &mut EndRecord, tcp: TcpInfo| {
            end.readings.clear();
            for stream in end.end.iter_mut().flat_map(|end| &mut end.streams) {
                (stream.bytes, stream.drained) = (0, false);
                (stream.first_byte_ns, stream.last_byte_ns) = (None, None);
                stream.tcp = tcp.clone();
            }
        };
        let held = self.held(test);
        let last = TcpInfo {
            bytes_acked: Some(TOKEN + 1),
            bytes_sent: Some(2 * TOKEN + 40_000),
            ..self.last(test, &held, 0)
        };
        let stuck = self.planted.silent();
        silent(
            &mut from,
            TcpInfo {
                backoff: stuck.backoff,
                unacked_packets: stuck.unacked_packets,
                snd_cwnd_packets: stuck.snd_cwnd_packets,
                ..last
            },
        );
        silent(&mut to, TcpInfo::default());
        (from, to)
    }

    fn samples(&self, test: Test, aggregate: f64, ahead_ns: i64) -> Vec<Sample> {
        let mut random = StdRng::seed_from_u64(test.seed);
        let count = test.seconds * 1_000_000_000 / SAMPLE_NS;
        let streams = test.num_conn as usize;
        let weights = self.planted.weights(streams);
        let mut credit = self.planted.credit;
        (0..count)
            .map(|i| {
                // Half a second of ramp.
                let ramp = if i < 2 { 0.25 + 0.35 * i as f64 } else { 1.0 };
                let level = if 3 * i > 2 * count { self.falls_to } else { 1.0 };
                let stalled = i * SAMPLE_NS < self.stall_us as i64 * 1000;
                let level = if stalled { 0.2 * level } else { level };
                let noise = 1.0 + self.noise * 1.732 * (2.0 * random.random::<f64>() - 1.0);
                let seconds = SAMPLE_NS as f64 / 1e9;
                let more = (self.planted.early - aggregate).max(0.0) * ramp * seconds;
                let lent = more.min(credit);
                credit -= lent;
                let all = aggregate * ramp * level * noise * seconds + lent;
                let each = all / streams as f64;
                let from_ns = test.start_ns + i * SAMPLE_NS + ahead_ns;
                Sample {
                    from_ns,
                    to_ns: from_ns + SAMPLE_NS,
                    stream_bytes: weights
                        .iter()
                        .map(|weight| {
                            (each * weight * (0.99 + 0.02 * random.random::<f64>())) as u64
                        })
                        .collect(),
                }
            })
            .collect()
    }

    fn readings(&self, test: Test, held: &Held, ahead_ns: i64, received: &[u64]) -> Vec<Reading> {
        let so_far = |second: i64, stream: u32| {
            let bytes = received[stream as usize] as f64 * second as f64 / test.seconds as f64;
            (bytes as u64, self.sent_again(held, bytes as u64, received[stream as usize]))
        };
        (1..=test.seconds)
            .flat_map(|second| (0..test.num_conn).map(move |stream| (second, stream)))
            .map(|(second, stream)| Reading {
                at_ns: test.start_ns + second * 1_000_000_000 + ahead_ns,
                stream,
                tcp: TcpInfo {
                    bytes_sent: (!self.old_kernel).then(|| {
                        let (bytes, again) = so_far(second, stream);
                        2 * TOKEN + bytes + again
                    }),
                    bytes_retrans: (!self.old_kernel).then(|| TOKEN + so_far(second, stream).1),
                    rtt_us: Some(self.loaded_us(held)),
                    min_rtt_us: (!self.old_kernel).then_some(self.rtt_us),
                    snd_mss_bytes: Some(self.mss(test.mtu)),
                    path_mtu_bytes: Some(self.path_mtu(test.mtu)),
                    snd_wnd_bytes: (!self.old_kernel).then_some(self.window(held, second)),
                    ..TcpInfo::default()
                },
            })
            .collect()
    }

    /// What the receiver offers: all of its buffer, or what its process leaves of it.
    fn window(&self, held: &Held, second: i64) -> u64 {
        if held.unread && second > 1 { 2000 } else { held.receive_buffer / 2 }
    }

    fn path_mtu(&self, asked: Option<u32>) -> u64 {
        let told = if self.planted.swallows { 9000 } else { self.mtu };
        let own = self.planted.interface_mtu.min(self.planted.remembered.unwrap_or(9000));
        u64::from(asked.unwrap_or(own).min(told))
    }

    fn mss(&self, asked: Option<u32>) -> u64 {
        let clamped = self.planted.mss.map_or(u64::MAX, |mss| mss - 12);
        let own = self.path_mtu(None) - 52;
        asked.map_or(own, |asked| u64::from(asked.min(self.mtu)) - 52).min(clamped)
    }

    fn loaded_us(&self, held: &Held) -> u64 {
        let waiting = match held.queue {
            true => self.queue_us,
            false => self.bursts_us.max(self.rtt_us / 50),
        };
        self.rtt_us + self.jitter_us + waiting
    }

    fn connected(&self, test: Test, held: &Held, clock: ClockOffset) -> Connected {
        let streams = (0..test.num_conn)
            .map(|stream| StreamStart {
                stream,
                local: format!("198.51.100.{}:{}", 11 + test.pair, 40_000 + stream),
                remote: format!("203.0.113.{}:5555", 11 + test.pair),
                congestion_control: self.congestion_control.clone(),
                buffer_forced: false,
                known_path_mtu_bytes: self.planted.remembered.map(u64::from),
                send_buffer_bytes: if test.buffer.is_some() { held.send_buffer } else { 16_384 },
                receive_buffer_bytes: match test.buffer {
                    Some(_) => held.receive_buffer,
                    None => 131_072,
                },
                tcp: TcpInfo {
                    snd_mss_bytes: Some(self.mss(test.mtu)),
                    advmss_bytes: Some(u64::from(self.planted.interface_mtu) - 52),
                    delivered_packets: (!self.old_kernel).then_some(2),
                    reord_seen: (!self.old_kernel).then_some(0),
                    rcv_ooopack: (!self.old_kernel).then_some(0),
                    rtt_us: Some(self.rtt_us + self.rtt_us / 100),
                    // The SYN and the token.
                    bytes_acked: (!self.old_kernel).then_some(TOKEN + 1),
                    bytes_sent: (!self.old_kernel).then_some(2 * TOKEN),
                    // The token was sent twice.
                    bytes_retrans: (!self.old_kernel).then_some(TOKEN),
                    busy_time_us: (!self.old_kernel).then_some(0),
                    rwnd_limited_us: (!self.old_kernel).then_some(0),
                    sndbuf_limited_us: (!self.old_kernel).then_some(0),
                    ..TcpInfo::default()
                },
            })
            .collect();
        Connected { streams, at_ns: test.start_ns - 1_000_000 + clock.offset_ns }
    }

    /// Of so many bytes; what slow start drowns is a share of all of them, and lost at once.
    fn sent_again(&self, held: &Held, bytes: u64, all: u64) -> u64 {
        let queue = if held.queue { 0.000_1 } else { 0.0 };
        let loss = self.loss.max(self.dropped).max(queue);
        (bytes as f64 * loss + all as f64 * self.ramp_loss) as u64
    }

    /// The sender's reading before close.
    fn last(&self, test: Test, held: &Held, bytes: u64) -> TcpInfo {
        let busy = test.seconds as u64 * 1_000_000;
        let share = |share: f64| (busy as f64 * share) as u64;
        let retransmitted = self.sent_again(held, bytes, bytes);
        let basic = TcpInfo {
            rtt_us: Some(self.loaded_us(held)),
            snd_mss_bytes: Some(self.mss(test.mtu)),
            path_mtu_bytes: Some(self.path_mtu(test.mtu)),
            ..TcpInfo::default()
        };
        if self.old_kernel {
            return basic;
        }
        TcpInfo {
            min_rtt_us: Some(self.rtt_us),
            // With the FIN.
            bytes_acked: Some(TOKEN + 1 + bytes + 1),
            bytes_sent: Some(2 * TOKEN + bytes + retransmitted),
            bytes_retrans: Some(TOKEN + retransmitted),
            busy_time_us: Some(busy),
            rwnd_limited_us: Some(share(held.receive_window_share)),
            sndbuf_limited_us: Some(share(held.send_buffer_share)),
            snd_wnd_bytes: Some(self.window(held, test.seconds)),
            delivered_packets: Some(2 + bytes / MSS),
            reord_seen: Some((bytes as f64 / MSS as f64 * self.planted.overtaking) as u64),
            ..basic
        }
    }
}

/// Parses `16MiB` of a step's words.
pub fn size(text: &str) -> u64 {
    quantity::<Bytes>(text).0
}
