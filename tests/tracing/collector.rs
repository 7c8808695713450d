//! A subscriber that keeps all spans and events.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// A span or an event.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) is_span: bool,
    pub(crate) level: Level,
    /// The name of a span, or the message of an event.
    pub(crate) name: String,
    pub(crate) fields: BTreeMap<String, String>,
    /// The names of the fields that were recorded as text.
    texts: BTreeSet<String>,
    /// The names of the fields that were recorded as floating-point numbers.
    pub(crate) numbers: BTreeSet<String>,
    /// The spans around it, the outermost first.
    pub(crate) around: Vec<String>,
}

impl Entry {
    pub(crate) fn label(&self) -> &str {
        self.fields.get("label").map_or("", String::as_str)
    }

    pub(crate) fn is_text(&self, field: &str) -> bool {
        self.texts.contains(field)
    }
}

static ENTRIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

thread_local! {
    static ENTERED: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
}

/// Collects from now on, including the reports of other threads.
pub(crate) fn start() {
    static STARTED: LazyLock<()> = LazyLock::new(|| {
        tracing::subscriber::set_global_default(Collector).expect("there is no other subscriber");
    });
    LazyLock::force(&STARTED);
}

/// The reports so far with this `label`.
pub(crate) fn under(label: &str) -> Vec<Entry> {
    all().into_iter().filter(|entry| entry.label() == label).collect()
}

/// All reports so far.
pub(crate) fn all() -> Vec<Entry> {
    ENTRIES.lock().unwrap().clone()
}

struct Collector;

impl Collector {
    fn keep(metadata: &Metadata<'_>, fields: Fields) -> Id {
        let mut entries = ENTRIES.lock().unwrap();
        let around = ENTERED.with_borrow(|ids| {
            ids.iter().map(|id| entries[usize::try_from(id.into_u64()).unwrap() - 1].name.clone()).collect()
        });
        let is_span = metadata.is_span();
        let name = if is_span { metadata.name().to_owned() } else { fields.message };
        let Fields { others: fields, texts, numbers, .. } = fields;
        let level = *metadata.level();
        entries.push(Entry { is_span, level, name, fields, texts, numbers, around });
        Id::from_u64(entries.len() as u64)
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "distlock"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        Collector::keep(attributes.metadata(), fields)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        Collector::keep(event.metadata(), fields);
    }

    fn enter(&self, span: &Id) {
        ENTERED.with_borrow_mut(|ids| ids.push(span.clone()));
    }

    fn exit(&self, span: &Id) {
        ENTERED.with_borrow_mut(|ids| {
            if let Some(at) = ids.iter().rposition(|id| id == span) {
                ids.remove(at);
            }
        });
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        let mut entries = ENTRIES.lock().unwrap();
        let entry = &mut entries[usize::try_from(span.into_u64()).unwrap() - 1];
        entry.fields.extend(fields.others);
        entry.texts.extend(fields.texts);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
}

/// Keeps reports of level INFO or above, like most programs.
pub(crate) struct UpToInfo;

impl Subscriber for UpToInfo {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && Collector.enabled(metadata)
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        Collector.new_span(attributes)
    }

    fn event(&self, event: &Event<'_>) {
        Collector.event(event);
    }

    fn enter(&self, span: &Id) {
        Collector.enter(span);
    }

    fn exit(&self, span: &Id) {
        Collector.exit(span);
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        Collector.record(span, values);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
}

#[derive(Default)]
struct Fields {
    message: String,
    others: BTreeMap<String, String>,
    texts: BTreeSet<String>,
    numbers: BTreeSet<String>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: String) {
        if field.name() == "message" {
            self.message = value;
        } else {
            self.others.insert(field.name().to_owned(), value);
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.texts.insert(field.name().to_owned());
        self.add(field, value.to_owned());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.numbers.insert(field.name().to_owned());
        self.add(field, value.to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
}
