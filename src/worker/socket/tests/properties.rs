//! Whatever is sent.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn any_request_is_understood_or_refused_by_a_field(
        numbers in prop::collection::vec(any::<u64>(), 6),
        seconds in any::<i64>(),
        nanos in any::<i32>(),
        text in ".{0,40}",
        count in 0_usize..3,
    ) {
        let span = prost_types::Duration { seconds, nanos };
        let position = proto::Position {
            partition: u32::try_from(numbers[0] % 7).unwrap(),
            epoch: numbers[1] % 3,
            sequence: numbers[2] % 3,
        };
        let fetch = proto::FetchRequest {
            max_messages: u32::try_from(numbers[3]).ok(),
            max_wait: Some(span),
            batch_wait: Some(span),
            max_bytes: Some(numbers[4]),
            ..Default::default()
        };
        let publish = proto::PublishRequest {
            to: Some(proto::publish_request::To::Key(text.clone())),
            headers: [(text.clone(), proto::HeaderValues { values: vec![text.clone(); count] })].into(),
            id: Some(text.clone()),
            ..Default::default()
        };
        let problems = [
            convert::fetch_options(&fetch).err(),
            convert::positions("positions", &vec![position; count]).err(),
            convert::ack_mode(nanos).err(),
            convert::ack_wait(nanos).err(),
            convert::publish(publish).err(),
            convert::session(Some(&text)).err(),
            convert::duration("delay", Some(&span), limits::MAX_DELAY).err(),
        ];
        for problem in problems.into_iter().flatten() {
            prop_assert!(problem.field.is_some_and(|field| !field.is_empty()));
        }
        prop_assert!(convert::kept_error(text.repeat(60)).len() <= limits::MAX_ERROR);
    }
}
