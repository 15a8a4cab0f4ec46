//! The library's `Reader`, in this process, into a counter, with acknowledgements.

use std::time::Duration;

use lockstep::nats::Options;
use lockstep::{Reader, ReaderOptions};
use lockstep_e2e::clock;
use lockstep_e2e::scene::{Outcome, SceneError};

use crate::ground::Ground;
use crate::group::Group;
use crate::tally::{Enough, Pace, Tally};

/// Most messages of one fetch.
const MOST: u64 = 5000;

/// Reads until it is enough, and has the last acknowledgements committed.
pub(crate) async fn read(
    ground: &Ground,
    group: &Group,
    (window, enough): (u64, Enough),
) -> Outcome<Pace> {
    let nats = Options::for_url(ground.servers.url());
    let reader = Reader::connect(ReaderOptions::new(nats, group.name.parse()?, "a")).await?;
    let most = u32::try_from(window.min(MOST))?;
    let mut tally = Tally::until(enough);
    loop {
        let messages = reader.fetch(most, Duration::from_secs(1)).await?;
        let (Some(_), now) = (messages.last(), clock::now()) else {
            continue;
        };
        if !tally.note(messages.len() as u64, now) {
            reader.commit(&messages).await?;
            break;
        }
        reader.ack(&messages).await?;
    }
    reader.close(Duration::from_secs(10)).await?;
    tally
        .pace()
        .ok_or_else(|| SceneError::new("nothing was handed over"))
}
