//! One agent from its start to its release: greeting, clock, beats.

use std::net::IpAddr;
use std::time::Duration;

use redoline_proto::PROTOCOL;
use redoline_proto::facts::{FactsRequest, HostFacts};
use redoline_proto::handshake::{ClockAnswer, ClockOffset, ClockQuestion, Hello};
use redoline_proto::units::milliseconds;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{self, Instant, MissedTickBehavior};

use super::client::{AgentClient, AgentError};
use super::deploy::{self, AgentOptions, Departure, DeployError, Running};
use super::executable::Executables;
use crate::connect::{self, ConnectError, Deadlines};
use crate::plan::access::Access;
use crate::plan::node::{Node, NodeId};

/// Beats keep the agent's lease and the clocks compared.
const BEAT_INTERVAL: Duration = Duration::from_millis(500);
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);
const HELLO_DEADLINE: Duration = Duration::from_secs(10);
/// Exchanges at the start, of which the one with the shortest round trip counts.
const CLOCK_EXCHANGES: usize = 4;

/// The controller's two clocks; an argument, so that tests can hold them.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    epoch: Instant,
}

impl Clocks {
    #[expect(clippy::new_without_default, reason = "reads the clock: no value to default to")]
    pub fn new() -> Self {
        Self { epoch: Instant::now() }
    }

    fn monotonic_ns(self) -> i64 {
        i64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(i64::MAX)
    }

    fn unix_ns(self) -> i64 {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since_1970.map_or(0, |time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
    }
}

/// What the controller says of itself to every agent.
#[derive(Clone, Debug)]
pub struct Greeting {
    pub run_id: String,
    /// `user@host`, for another run that finds the node busy.
    pub owner: String,
    pub version: &'static str,
    pub commit: &'static str,
}

/// Why a node has no agent.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Deploy(#[from] DeployError),
    #[error("the agent on `{node}` did not answer as expected{stderr}")]
    Greet {
        node: String,
        /// What it wrote on its standard error, if anything.
        stderr: String,
        #[source]
        cause: AgentError,
    },
    #[error(
        "the agent on `{node}` speaks protocol {theirs}, this controller {PROTOCOL}; remove the old \
         agent with `redoline clean`"
    )]
    Protocol { node: String, theirs: u32 },
    #[error("node `{node}` is busy: {holder}")]
    Busy { node: String, holder: String },
}

impl BeginError {
    /// What was being done, for people.
    pub fn phase(&self) -> String {
        match self {
            Self::Connect(error) => error.phase().to_string(),
            Self::Deploy(_) => "start the agent".to_owned(),
            Self::Greet { .. } | Self::Protocol { .. } => "greet the agent".to_owned(),
            Self::Busy { .. } => "take the node's lock".to_owned(),
        }
    }
}

/// An agent that answered and holds its node.
#[derive(Debug)]
pub struct Agent {
    pub node: NodeId,
    pub name: String,
    pub client: AgentClient,
    /// Where it was started from, and whether it was there already.
    pub origin: String,
    pub accepted_host_key: Option<String>,
    clock: watch::Receiver<ClockOffset>,
    beats: JoinHandle<()>,
    running: Running,
    options: AgentOptions,
}

impl Agent {
    /// Connects, puts the agent there, greets it.
    pub async fn begin(
        id: NodeId,
        node: &Node,
        executables: &Executables,
        options: &AgentOptions,
        greeting: &Greeting,
        clocks: Clocks,
    ) -> Result<Self, BeginError> {
        let connection = connect::open(&node.name, &node.access, &Deadlines::default()).await?;
        let accepted_host_key = connection.accepted_host_key().map(str::to_owned);
        let options = AgentOptions {
            directory: node.agent_dir.clone().or_else(|| options.directory.clone()),
            ..options.clone()
        };
        let started = deploy::start(connection, executables, &options).await?;
        let origin = match started.uploaded {
            true => "copied to the node",
            false => "was on the node",
        };
        let (stream, running) = started.into_parts();
        let lease = lease(node);
        let greet = |cause| BeginError::Greet {
            node: node.name.clone(),
            stderr: quoted_stderr(&running.stderr.text()),
            cause,
        };
        let client = AgentClient::over(stream, lease).await.map_err(greet)?;
        let clock = match say_hello(&client, node, greeting, lease, clocks).await {
            Ok(clock) => clock,
            Err(HelloError::Agent(AgentError::Refused { reason, busy: true, .. })) => {
                return Err(BeginError::Busy { node: node.name.clone(), holder: reason });
            }
            Err(HelloError::Agent(cause)) => return Err(greet(cause)),
            Err(HelloError::Protocol(theirs)) => {
                return Err(BeginError::Protocol { node: node.name.clone(), theirs });
            }
        };
        let (latest, clock) = watch::channel(clock);
        let beats = tokio::spawn(beat(client.clone(), latest, lease, clocks));
        Ok(Self {
            node: id,
            name: node.name.clone(),
            client,
            origin: origin.to_owned(),
            accepted_host_key,
            clock,
            beats,
            running,
            options,
        })
    }

    /// The best known so far.
    pub fn clock(&self) -> ClockOffset {
        *self.clock.borrow()
    }

    /// Whether it still answers, for telling what a broken data connection comes from.
    pub async fn answers(&self) -> Result<(), AgentError> {
        let question = ClockQuestion { sent_ns: 0 };
        self.client.beat(question, ANSWER_DEADLINE).await.map(|_| ())
    }

    /// `hops`: how long the network may be asked for the hops to the peers; zero asks nothing.
    pub async fn facts(
        &self,
        mut request: FactsRequest,
        hops: Duration,
    ) -> Result<HostFacts, AgentError> {
        request.deadline_ms = milliseconds(hops);
        self.client.facts(request, hops + HELLO_DEADLINE).await
    }

    /// The end of what the agent wrote on its standard error.
    pub fn last_words(&self) -> String {
        quoted_stderr(&self.running.stderr.text())
    }

    /// Ends the agent: end-of-file on its control channel, then the session. Returns what is left
    /// on the node, if anything.
    pub async fn release(self, executables: &Executables, deadline: Duration) -> Option<String> {
        self.beats.abort();
        drop(self.client);
        match self.running.depart(executables, &self.options, deadline).await {
            Departure::Clean => None,
            Departure::Left(what) => Some(what),
        }
    }
}

/// 15 s where the control channel shares processor or interface with what is measured, or may: a
/// saturated link delays beats. 3 s where SSH has another address than the redo traffic.
fn lease(node: &Node) -> Duration {
    let apart = match &node.access {
        Access::Local => false,
        Access::Ssh(ssh) => ssh.host.parse().is_ok_and(|host: IpAddr| host != node.redo.address),
    };
    Duration::from_secs(if apart { 3 } else { 15 })
}

enum HelloError {
    Agent(AgentError),
    Protocol(u32),
}

impl From<AgentError> for HelloError {
    fn from(error: AgentError) -> Self {
        Self::Agent(error)
    }
}

async fn say_hello(
    client: &AgentClient,
    node: &Node,
    greeting: &Greeting,
    lease: Duration,
    clocks: Clocks,
) -> Result<ClockOffset, HelloError> {
    let hello = Hello {
        protocol: PROTOCOL,
        version: greeting.version.to_owned(),
        commit: greeting.commit.to_owned(),
        run_id: greeting.run_id.clone(),
        owner: greeting.owner.clone(),
        redo_address: node.redo.bind.to_string(),
        lease_ms: milliseconds(lease),
        clock: ClockQuestion { sent_ns: clocks.monotonic_ns() },
    };
    let answer = client.hello(hello, HELLO_DEADLINE).await?;
    if answer.protocol != PROTOCOL {
        return Err(HelloError::Protocol(answer.protocol));
    }
    let mut best = offset(answer.clock, clocks);
    for _ in 0..CLOCK_EXCHANGES {
        best = best.better(exchange(client, HELLO_DEADLINE, clocks).await?);
    }
    Ok(best)
}

async fn exchange(
    client: &AgentClient,
    deadline: Duration,
    clocks: Clocks,
) -> Result<ClockOffset, AgentError> {
    let question = ClockQuestion { sent_ns: clocks.monotonic_ns() };
    Ok(offset(client.beat(question, deadline).await?, clocks))
}

fn offset(answer: ClockAnswer, clocks: Clocks) -> ClockOffset {
    ClockOffset::from_exchange(answer, clocks.monotonic_ns(), clocks.unix_ns())
}

/// Beats until the agent is lost or released. A lost agent shows in what it is asked next.
async fn beat(
    client: AgentClient,
    latest: watch::Sender<ClockOffset>,
    lease: Duration,
    clocks: Clocks,
) {
    let mut ticks = time::interval(BEAT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match exchange(&client, lease, clocks).await {
            Ok(offset) => latest.send_modify(|best| *best = best.better(offset)),
            Err(_) => return,
        }
    }
}

fn quoted_stderr(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text => format!("; it wrote: {text}"),
    }
}
