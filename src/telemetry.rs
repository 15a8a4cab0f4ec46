//! Logs: one event per line on standard error, as text for people or as JSON for programs.
//!
//! A JSON line has `timestamp`, `level`, `message` and `target`, then the house's fields (`group`,
//! `member`, `partition`, `epoch`, ...) of the event and of the spans around it, all on one level.

use std::error::Error;
use std::fmt;
use std::io::IsTerminal;
use std::str::FromStr;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// The NATS client's name in the log.
const CLIENT: &str = "async_nats";

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Which events are logged: `error`, `warn`, `info`, `debug`, `trace`, or per module
/// (`info,lockstep::nats=debug`). Checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLevel(String);

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// Not a format.
    #[error("log format {0:?} is unknown; use text or json")]
    UnknownFormat(String),
    /// Not a level.
    #[error(
        "log level {0:?} is unknown; use error, warn, info, debug, trace, or per module as in \
         info,lockstep::nats=debug"
    )]
    UnknownLevel(String),
    /// Somebody in this process has set it up already.
    #[error("logging is already set up in this process; set it up once")]
    AlreadySetUp,
}

/// Writes an event as one flat JSON object.
struct FlatJson;

/// Collects fields, the later ones over the earlier.
struct Fields<'a>(&'a mut Map<String, Value>);

/// Sets up logging to standard error for the whole process; once.
pub fn init(format: LogFormat, level: &LogLevel) -> Result<(), TelemetryError> {
    let builder = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(level.filter()?);
    let done = match format {
        LogFormat::Text => builder
            .with_ansi(std::io::stderr().is_terminal())
            .try_init(),
        LogFormat::Json => builder
            .fmt_fields(JsonFields::new())
            .event_format(FlatJson)
            .try_init(),
    };
    done.map_err(|_| TelemetryError::AlreadySetUp)
}

// === impl LogFormat ===

impl FromStr for LogFormat {
    type Err = TelemetryError;
    fn from_str(given: &str) -> Result<Self, TelemetryError> {
        match given {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(TelemetryError::UnknownFormat(given.to_owned())),
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

// === impl LogLevel ===

impl LogLevel {
    fn filter(&self) -> Result<EnvFilter, TelemetryError> {
        EnvFilter::try_new(self.directives())
            .map_err(|_| TelemetryError::UnknownLevel(self.0.clone()))
    }

    /// At `info` the NATS client says each of its attempts to connect, which ours sum up: its own
    /// lines begin at `warn` there, unless somebody asked for them.
    fn directives(&self) -> String {
        let asked = self.0.contains(CLIENT);
        let at_info = self
            .0
            .split(',')
            .any(|d| d.trim().eq_ignore_ascii_case("info"));
        if at_info && !asked {
            format!("{},{CLIENT}=warn", self.0)
        } else {
            self.0.clone()
        }
    }
}

impl Default for LogLevel {
    fn default() -> Self {
        Self("info".to_owned())
    }
}

impl FromStr for LogLevel {
    type Err = TelemetryError;
    fn from_str(given: &str) -> Result<Self, TelemetryError> {
        // A bare word that is no level would be taken for the name of a module.
        let words = ["error", "warn", "info", "debug", "trace", "off"];
        let bare = given
            .split(',')
            .filter(|directive| !directive.contains('='))
            .all(|word| words.contains(&word.trim().to_lowercase().as_str()));
        if !bare {
            return Err(TelemetryError::UnknownLevel(given.to_owned()));
        }
        let level = Self(given.to_owned());
        level.filter()?;
        Ok(level)
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl FlatJson ===

impl<S> FormatEvent<S, JsonFields> for FlatJson
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let metadata = event.metadata();
        let mut line = Map::new();
        line.insert("timestamp".to_owned(), timestamp.into());
        line.insert("level".to_owned(), metadata.level().as_str().into());
        line.insert("message".to_owned(), Value::Null); // keeps its place
        line.insert("target".to_owned(), metadata.target().into());
        for span in context
            .event_scope()
            .into_iter()
            .flat_map(tracing_subscriber::registry::Scope::from_root)
        {
            let extensions = span.extensions();
            let Some(fields) = extensions.get::<FormattedFields<JsonFields>>() else {
                continue;
            };
            if let Ok(Value::Object(fields)) = serde_json::from_str(fields.fields.as_str()) {
                fields
                    .into_iter()
                    .for_each(|(name, value)| Fields(&mut line).set(&name, value));
            }
        }
        event.record(&mut Fields(&mut line));
        let text = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
        writeln!(writer, "{text}")
    }
}

// === impl Fields ===

impl Fields<'_> {
    fn set(&mut self, name: &str, value: Value) {
        // Nobody's field may pass itself off as one of ours.
        let name = match name {
            "timestamp" | "level" | "target" => format!("field.{name}"),
            other => other.to_owned(),
        };
        self.0.insert(name, value);
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field.name(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field.name(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field.name(), value.into());
    }

    /// The whole chain of causes: "what: why: why".
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut text = value.to_string();
        let mut cause = value.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        self.set(field.name(), text.into());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn lines_of(log: impl FnOnce()) -> Vec<Value> {
        let sink = Sink::default();
        let into = sink.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || into.clone())
            .fmt_fields(JsonFields::new())
            .event_format(FlatJson)
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_json_line_is_flat_and_has_the_fields_of_its_spans() {
        let lines = lines_of(|| {
            let outer = tracing::info_span!("member", group = "shop/orders", member = "a");
            let _outer = outer.enter();
            let inner = tracing::info_span!("partition", partition = 3, member = "b");
            let _inner = inner.enter();
            tracing::warn!(epoch = 7, level = "mine", "lease lapsed\nreally");
        });
        let [line] = lines.as_slice() else {
            panic!("one event is one line: {lines:?}")
        };
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["message"], "lease lapsed\nreally");
        assert_eq!(line["target"], "lockstep::telemetry::tests");
        assert_eq!(line["group"], "shop/orders");
        assert_eq!(line["member"], "b", "the inner span is nearer");
        assert_eq!(line["partition"], 3);
        assert_eq!(line["epoch"], 7);
        assert_eq!(line["field.level"], "mine");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn an_error_is_logged_with_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("commit of partition 3 not stored")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("no answer"));
        let lines =
            lines_of(|| tracing::error!(error = &error as &(dyn Error + 'static), "stopped"));
        assert_eq!(
            lines[0]["error"],
            "commit of partition 3 not stored: no answer"
        );
    }

    #[test]
    fn the_clients_own_chatter_is_kept_out_of_info_and_nowhere_else() {
        let of = |level: &str| level.parse::<LogLevel>().unwrap().directives();
        assert_eq!(LogLevel::default().directives(), "info,async_nats=warn");
        assert_eq!(
            of("lockstep::nats=debug,info"),
            "lockstep::nats=debug,info,async_nats=warn"
        );
        for asked in ["warn", "debug", "info,async_nats=info", "off"] {
            assert_eq!(of(asked), asked);
        }
    }

    #[test]
    fn a_wrong_level_or_format_is_refused_with_what_is_allowed() {
        for wrong in ["loud", "", "info,nonsense", "lockstep=loud"] {
            let error = wrong.parse::<LogLevel>().unwrap_err().to_string();
            assert!(error.contains("use error, warn, info"), "{wrong}: {error}");
        }
        for right in ["info", "DEBUG", "warn,lockstep::nats=trace", "off"] {
            right.parse::<LogLevel>().unwrap();
        }
        let error = "xml".parse::<LogFormat>().unwrap_err().to_string();
        assert_eq!(error, "log format \"xml\" is unknown; use text or json");
    }
}
