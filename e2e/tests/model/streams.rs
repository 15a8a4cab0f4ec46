//! Streams: their edges, what retention leaves, another history.

use super::script::OF_A_STREAM;
use super::servers::Servers;
use super::simulated::Simulated;

async fn a_stream_behaves_like_the_model(replicas: u32) {
    let mut servers = Servers::start(replicas).await;
    let mut simulated = Simulated::new(4, replicas > 1);
    for (index, deed) in OF_A_STREAM.iter().enumerate() {
        let (real, modelled) = (servers.deed(*deed).await, simulated.deed(*deed));
        assert_eq!(real, modelled, "R{replicas}, step {index}: {deed:?}");
    }
}

#[tokio::test]
async fn a_stream_of_one_server_behaves_like_the_model() {
    a_stream_behaves_like_the_model(1).await;
}

#[tokio::test]
async fn a_stream_of_three_servers_behaves_like_the_model() {
    a_stream_behaves_like_the_model(3).await;
}
