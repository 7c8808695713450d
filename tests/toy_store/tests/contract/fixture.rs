//! A fixture on a toy server.

/// With a proxy in front of the server.
macro_rules! on_the_toy_server {
    ($name:ident, $store:expr $(, $mistake:expr)?) => {
        struct $name {
            server: distlock_toy_store::ToyServer,
            proxy: distlock_fixtures::Proxy,
        }

        impl $name {
            #[allow(unused_assignments, unused_mut, reason = "most make no mistake")]
            fn mistake() -> Option<distlock_toy_store::Mistake> {
                let mut mistake = None;
                $(mistake = Some($mistake);)?
                mistake
            }
        }

        impl distlock::testing::contract::Fixture for $name {
            type Store = ToyStore;

            async fn start() -> Self {
                let server = distlock_toy_store::ToyServer::mistaken(Self::mistake()).await;
                let server = server.expect("there is a free port");
                let proxy = distlock_fixtures::Proxy::to(&server.address().to_string());
                $name { server, proxy }
            }

            fn store(&self) -> ToyStore {
                $store(self.proxy.address()).mistaken(Self::mistake())
            }

            fn store_apart(&self) -> ToyStore {
                $store(self.server.address()).mistaken(Self::mistake())
            }

            async fn hold(&self) {
                self.proxy.hold(distlock_fixtures::Direction::Requests);
                self.proxy.hold(distlock_fixtures::Direction::Replies);
            }

            async fn cut(&self) {
                self.proxy.refuse();
            }

            async fn mend(&self) {
                self.proxy.pass();
            }

            async fn restart(&self) {
                self.server.restart();
            }
        }
    };
}
pub(crate) use on_the_toy_server;
