//! gRPC.

use prost::Message;

use super::*;

/// `google.rpc.Status` by hand: field 3 is a list of `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

#[tokio::test]
async fn a_grpc_error_has_a_detail_that_names_the_field() {
    let scene = Scene::start();
    let mut worker = scene.worker().await;
    let position = proto::Position {
        partition: 3,
        epoch: 0,
        sequence: 1,
    };
    let request = proto::AckRequest {
        positions: vec![position],
        ..Default::default()
    };
    let status = worker.ack(request).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert!(status.message().starts_with("positions[0].epoch is 0"));
    let details = RpcStatus::decode(status.details()).unwrap().details;
    assert!(
        details[0]
            .type_url
            .ends_with("/lockstep.worker.v1.ErrorDetail")
    );
    let detail = proto::ErrorDetail::decode(&details[0].value[..]).unwrap();
    assert_eq!(detail.code, "bad-request");
    assert_eq!(detail.field, "positions[0].epoch");
    let unknown_mode = proto::AckRequest {
        positions: vec![proto::Position {
            epoch: 1,
            ..position
        }],
        mode: 9,
        wait: 0,
    };
    let status = worker.ack(unknown_mode).await.unwrap_err();
    assert!(status.message().starts_with("mode "), "{status:?}");
}

#[tokio::test]
async fn both_encodings_are_served_on_one_socket_at_once() {
    let mut scene = Scene::start();
    let mut worker = scene.worker().await;
    let request = async {
        let mut request = tonic::Request::new(proto::FetchRequest::default());
        request
            .metadata_mut()
            .insert("lockstep-session", "g".parse().unwrap());
        worker.fetch(request).await.unwrap().into_inner()
    };
    let answer = scene
        .answering(request, |command| {
            let Command::Fetch { session, reply, .. } = command else {
                panic!("{command:?}")
            };
            assert_eq!(session.as_str(), "g");
            let fetched = Fetched {
                messages: vec![delivered(41, b"\xff\x00")],
                redelivered: 0,
            };
            reply.send(Ok(fetched)).unwrap();
        })
        .await;
    assert_eq!(&answer.messages[0].payload[..], b"\xff\x00");
    assert_eq!(answer.messages[0].headers["x"].values, ["1"]);
    assert_eq!(scene.get("/startupz").await.status, 200);
}
