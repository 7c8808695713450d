//! The layers between a gRPC client and a gRPC server, over a socket.

use distlock_fence::Fence;
use distlock_fence::tower::{RefuseStale, SendFence};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::ServiceBuilder;

/// Calls the service as the holder with this token, or as a client without a token.
async fn call(channel: &Channel, token: Option<u64>) -> Result<(), Status> {
    let request = HealthCheckRequest::default();
    match token {
        Some(token) => {
            let layer = SendFence::new(&Fence::new("points:42", token));
            HealthClient::new(ServiceBuilder::new().layer(layer).service(channel.clone()))
                .check(request)
                .await
        }
        None => HealthClient::new(channel.clone()).check(request).await,
    }
    .map(drop)
}

#[tokio::test]
async fn a_server_refuses_an_overtaken_holder_by_a_status() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (_reporter, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(RefuseStale::remembering(9)).add_service(health);
    let server = tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    let channel = Endpoint::try_from(url).unwrap().connect().await.unwrap();

    call(&channel, Some(7)).await.unwrap();
    call(&channel, Some(8)).await.unwrap();
    let stale = call(&channel, Some(7)).await.unwrap_err();
    assert_eq!(
        (stale.code(), stale.message()),
        (Code::FailedPrecondition, "a later holder has been accepted")
    );
    assert_eq!(call(&channel, None).await.unwrap_err().code(), Code::FailedPrecondition);
    call(&channel, Some(8)).await.unwrap();
    server.abort();
}
