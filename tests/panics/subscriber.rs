//! A log subscriber that panics on the manager's thread.

use std::panic::PanicHookInfo;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static PANICS: AtomicUsize = AtomicUsize::new(0);

struct Panicking;

/// Starts to panic. Returns how often it has panicked so far.
pub(crate) fn start() -> usize {
    static STARTED: LazyLock<()> = LazyLock::new(|| {
        let hook = std::panic::take_hook();
        // The intended panics would fill the screen.
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if !on_purpose(info) {
                hook(info);
            }
        }));
        tracing::subscriber::set_global_default(Panicking).expect("there is no other subscriber");
    });
    LazyLock::force(&STARTED);
    panics()
}

fn on_purpose(info: &PanicHookInfo<'_>) -> bool {
    info.payload().downcast_ref::<&str>().is_some_and(|text| text.contains("on purpose"))
}

pub(crate) fn panics() -> usize {
    PANICS.load(Ordering::SeqCst)
}

impl Subscriber for Panicking {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "distlock"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, _: &Event<'_>) {
        if std::thread::current().name() == Some("distlock-io") {
            PANICS.fetch_add(1, Ordering::SeqCst);
            panic!("the subscriber panics on purpose");
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}
}
