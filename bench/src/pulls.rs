//! Which size of pulls, and how many connections, read fastest: what `limit::BEST` is taken from.

use std::time::Duration;

use lockstep_e2e::console::say;
use lockstep_e2e::figures::{Figures, load_average, median, rounded};
use lockstep_e2e::scene::Outcome;

use crate::ground::{Cell, Ground, Layout};
use crate::limit::{self, Pulling};
use crate::tally::Enough;

/// Reads the same streams with each, round after round.
pub(crate) async fn measure(figures: &mut Figures, cell: Cell, rounds: u32) -> Outcome<()> {
    for layout in [Layout::Filters, Layout::Streams] {
        let cell = Cell { layout, ..cell };
        let part = format!("pulls, {}", cell.name());
        say(&format!("{part} (load average {})", load_average()));
        let ground = Ground::prepare(cell).await?;
        let enough = Enough {
            messages: cell.messages,
            within: Duration::from_secs(10),
        };
        let ways = ways();
        let mut paces = vec![Vec::new(); ways.len()];
        for _ in 0..rounds {
            for (way, paces) in ways.iter().zip(&mut paces) {
                paces.push(limit::read(&ground, enough, *way).await?.per_second);
            }
        }
        for (way, paces) in ways.iter().zip(&paces) {
            let Pulling {
                batch,
                low,
                connections,
            } = way;
            let name = format!("batch {batch}, again at {low}, {connections} connections");
            figures.note(&part, &name, rounded(median(paces).unwrap_or_default(), 0));
        }
    }
    Ok(())
}

fn ways() -> Vec<Pulling> {
    let pairs = [(100, 50), (250, 100), (500, 150), (1000, 250), (4000, 1000)];
    let one = pairs.map(|(batch, low)| Pulling {
        batch,
        low,
        connections: 1,
    });
    let two = Pulling {
        connections: 2,
        ..limit::BEST
    };
    one.into_iter().chain([two]).collect()
}
