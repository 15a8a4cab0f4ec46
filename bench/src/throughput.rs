//! How fast a stored backlog is read, by each contender in turn, against the limit.

use std::time::Duration;

use lockstep_e2e::console::say;
use lockstep_e2e::figures::{Figures, Reach, load_average, median, rounded};
use lockstep_e2e::scene::{Outcome, SceneError};

use crate::ground::{Cell, Ground, Layout};
use crate::group::{AT_ONCE, Group, Terms, Worker};
use crate::kafka::{self, Kafka};
use crate::tally::{Enough, Pace};
use crate::{grpc, http, library, limit, outside};

/// The credit of a stream with a wide window.
const CREDIT: u64 = 8000;

/// The topic of the messages that Kafka has.
const TOPIC: &str = "backlog";

/// How long a contender may take to begin and to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// The bare reader.
    Limit,
    /// Worker, and an application in Rust over `Consume`.
    GrpcRust,
    /// The same in Python.
    GrpcPython,
    /// Worker, and an application in Rust over `Fetch` and `Ack`.
    Http,
    /// The library.
    Library,
    /// pcgroups, static, strict.
    PcgroupsStatic,
    /// pcgroups, elastic, strict.
    PcgroupsElastic,
    /// Kafka and its Java client.
    Kafka,
}

/// One comparison.
#[derive(Clone, Debug)]
pub(crate) struct Match {
    pub(crate) cell: Cell,
    pub(crate) window: u32,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) rounds: u32,
    /// How long a contender may read in one round.
    pub(crate) within: Duration,
}

/// What the contenders of a match read.
struct Grounds {
    ours: Ground,
    theirs: Option<Kafka>,
}

// === impl Contender ===

impl Contender {
    pub(crate) const ALL: [Self; 8] = [
        Self::Limit,
        Self::GrpcRust,
        Self::GrpcPython,
        Self::Http,
        Self::Library,
        Self::PcgroupsStatic,
        Self::PcgroupsElastic,
        Self::Kafka,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::GrpcRust => "grpc_rust",
            Self::GrpcPython => "grpc_python",
            Self::Http => "http",
            Self::Library => "library",
            Self::PcgroupsStatic => "pcgroups_static",
            Self::PcgroupsElastic => "pcgroups_elastic",
            Self::Kafka => "kafka",
        }
    }

    /// Whether it was built, and can read such a cell at all.
    fn can_read(self, cell: &Cell) -> bool {
        match self {
            Self::Limit | Self::GrpcRust | Self::Http | Self::Library => true,
            Self::GrpcPython => outside::is_built("python/worker_pb2_grpc.py"),
            Self::PcgroupsStatic | Self::PcgroupsElastic => {
                outside::is_built("pcgroups") && cell.layout == Layout::Filters
            }
            Self::Kafka => kafka::is_here() && cell.replicas == 1,
        }
    }

    async fn read(self, grounds: &Grounds, window: u32, enough: Enough) -> Outcome<Pace> {
        let ground = &grounds.ours;
        let credit = credit(ground, window);
        match self {
            Self::Limit => limit::read(ground, enough, limit::BEST).await,
            Self::GrpcRust => {
                let (_group, worker) = member(ground, window).await?;
                grpc::read(&worker.socket, credit, enough).await
            }
            Self::GrpcPython => {
                let (_group, worker) = member(ground, window).await?;
                outside::python(&worker.socket, credit, enough).await
            }
            Self::Http => {
                let (_group, worker) = member(ground, window).await?;
                http::read(&worker.socket, credit, enough).await
            }
            Self::Library => {
                let group = Group::start(ground, terms(window))?;
                library::read(ground, &group, (credit, enough)).await
            }
            Self::PcgroupsStatic => outside::pcgroups(ground, "static", enough).await,
            Self::PcgroupsElastic => outside::pcgroups(ground, "elastic", enough).await,
            Self::Kafka => match &grounds.theirs {
                Some(kafka) => kafka.read(TOPIC, window, enough).await,
                None => Err(SceneError::new("Kafka is not here")),
            },
        }
    }
}

/// A group with one worker.
async fn member(ground: &Ground, window: u32) -> Outcome<(Group, Worker)> {
    let group = Group::start(ground, terms(window))?;
    let worker = group.worker("a").await?;
    Ok((group, worker))
}

fn terms(window: u32) -> Terms {
    Terms {
        window,
        membership: AT_ONCE,
    }
}

/// No more than can be in the application's hands.
fn credit(ground: &Ground, window: u32) -> u64 {
    (u64::from(window) * u64::from(ground.cell.partitions)).min(CREDIT)
}

// === impl Match ===

impl Match {
    /// Lets everyone read the same messages, round after round.
    pub(crate) async fn run(&self, figures: &mut Figures) -> Outcome<()> {
        let name = format!("{} window {}", self.cell.name(), self.window);
        say(&format!("{name} (load average {})", load_average()));
        let able = self.contenders.iter().filter(|c| c.can_read(&self.cell));
        let able: Vec<Contender> = able.copied().collect();
        let grounds = self.prepare(able.contains(&Contender::Kafka)).await?;
        let enough = Enough {
            messages: self.cell.messages,
            within: self.within,
        };
        let mut paces = vec![Vec::new(); able.len()];
        let mut fewest = u64::MAX;
        for _ in 0..self.rounds {
            for (contender, paces) in able.iter().zip(&mut paces) {
                let reading = contender.read(&grounds, self.window, enough);
                let pace = tokio::time::timeout(self.within + PATIENCE, reading).await;
                let late = |_| SceneError::new(format!("{} hangs", contender.name()));
                let pace = pace.map_err(late)??;
                self.judge(*contender, pace)?;
                fewest = fewest.min(pace.messages);
                paces.push(pace.per_second);
            }
        }
        figures.note(&name, "fewest_messages", fewest);
        let paces: Vec<(Contender, Vec<f64>)> = able.into_iter().zip(paces).collect();
        self.note(figures, &name, &paces);
        Ok(())
    }

    /// Nobody is given a message twice here.
    fn judge(&self, contender: Contender, pace: Pace) -> Outcome<()> {
        if pace.messages <= self.cell.messages {
            return Ok(());
        }
        Err(SceneError::new(format!(
            "{} read {} messages of {}",
            contender.name(),
            pace.messages,
            self.cell.messages
        )))
    }

    async fn prepare(&self, kafka: bool) -> Outcome<Grounds> {
        let ours = Ground::prepare(self.cell).await?;
        let theirs = if kafka {
            let started = Kafka::start(Duration::from_secs(45), Duration::from_secs(5)).await?;
            started.fill(TOPIC, &self.cell).await?;
            Some(started)
        } else {
            None
        };
        Ok(Grounds { ours, theirs })
    }

    /// A ratio is the median of the rounds' ratios: what is compared shares its noise.
    fn note(&self, figures: &mut Figures, name: &str, paces: &[(Contender, Vec<f64>)]) {
        for (contender, paces) in paces {
            if let Some(pace) = median(paces) {
                let figure = format!("{}_per_second", contender.name());
                figures.note(name, &figure, rounded(pace, 0));
            }
        }
        let of = |wanted| paces.iter().find(|(c, _)| *c == wanted).map(|(_, all)| all);
        let mut compare = |one: Contender, other: Contender, reach: Reach| {
            let (Some(ones), Some(others)) = (of(one), of(other)) else {
                return;
            };
            let ratios: Vec<f64> = ones.iter().zip(others).map(|(a, b)| a / b).collect();
            let ratio = format!("{name}: {} / {}", one.name(), other.name());
            figures.ratio(&ratio, median(&ratios).unwrap_or_default(), reach);
        };
        let wide = self.window > 1;
        let (of_limit, of_pcgroups) = if wide {
            (Reach::AtLeast(0.8), Reach::AtLeast(10.0))
        } else {
            (Reach::Whatever, Reach::AtLeast(3.0))
        };
        compare(Contender::GrpcRust, Contender::Limit, of_limit);
        for other in [Contender::GrpcPython, Contender::Http, Contender::Library] {
            compare(other, Contender::Limit, Reach::Whatever);
        }
        for pcgroups in [Contender::PcgroupsStatic, Contender::PcgroupsElastic] {
            compare(Contender::GrpcRust, pcgroups, of_pcgroups);
        }
        compare(Contender::GrpcRust, Contender::Kafka, Reach::Whatever);
    }
}
