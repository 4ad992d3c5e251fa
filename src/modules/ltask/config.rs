//! Reads the table of `bootstrap.init` as a [`Config`].

use crate::ltask::config::{Config, FullMailbox};
use crate::lua::{Call, Fault, Kind, StoredInTable, Value};
use std::time::Duration;

/// The table at argument 1. Its fields are read, and the values that are used are written back.
struct Fields<'c, 's>(&'c mut Call<'s>);

impl Fields<'_, '_> {
    /// Pushes a field. Returns its index.
    fn get(&mut self, name: &'static str) -> Result<i32, Fault> {
        self.0.drop_to(1);
        self.0.raw_field(1, name)
    }

    fn set(&mut self, name: &'static str, value: Value) -> Result<(), Fault> {
        self.0.drop_to(1);
        let key = self.0.create(name)?;
        self.0.create(StoredInTable::new(1, key, value))?;
        Ok(())
    }

    /// Returns the error for a field with a value of the wrong type, which is at `index`.
    fn type_error(&self, name: &str, expected: &str, index: i32) -> Fault {
        let got = self.0.type_name(index);
        Fault::message(format_args!("config.{name}: {expected} expected, got {got}"))
    }

    /// Reads an integer, which must be within `low..=high`; nil means `default`.
    fn integer(&mut self, name: &'static str, (low, high): (i64, i64), default: usize) -> Result<usize, Fault> {
        let field = self.get(name)?;
        let value = match self.0.integer_value(field) {
            Some(value) if (low..=high).contains(&value) => value,
            Some(value) => {
                let text = format_args!("config.{name}: must be {low} to {high}, not {value}");
                return Err(Fault::message(text));
            }
            None if self.0.is_none(field) => default as i64,
            None => return Err(self.type_error(name, "integer", field)),
        };
        self.set(name, Value::Integer(value))?;
        Ok(value as usize)
    }

    /// Reads a string. `false` means the same as nil.
    fn string(&mut self, name: &'static str) -> Result<Option<String>, Fault> {
        let field = self.get(name)?;
        match self.0.string(field) {
            Some(text) => Ok(Some(String::from_utf8_lossy(text).into_owned())),
            None if !self.0.is_true(field) => Ok(None),
            None => Err(self.type_error(name, "string", field)),
        }
    }

    /// Reads a number of seconds. `false` means the same as 0.
    fn seconds(&mut self, name: &'static str, default: Duration) -> Result<Duration, Fault> {
        let field = self.get(name)?;
        let time = match self.0.kind(field) {
            Kind::Nil => default,
            Kind::Boolean if !self.0.is_true(field) => Duration::ZERO,
            Kind::Number => match self.0.number(field)? {
                seconds if seconds >= 0.0 => Duration::from_secs_f64(seconds.min(1e9)),
                _ => return Err(Fault::message(format_args!("config.{name}: seconds, 0 or more, expected"))),
            },
            _ => return Err(self.type_error(name, "number", field)),
        };
        self.set(name, Value::Number(time.as_secs_f64()))?;
        Ok(time)
    }

    fn full(&mut self) -> Result<FullMailbox, Fault> {
        let (full, word) = match self.string("full")?.as_deref() {
            None | Some("error") => (FullMailbox::Error, "error"),
            Some("wait") => (FullMailbox::Wait, "wait"),
            Some(_) => return Err(Fault::message("config.full: 'error' or 'wait' expected")),
        };
        self.set("full", Value::Name(word))?;
        Ok(full)
    }
}

/// Reads the configuration from the table at argument 1, and writes the values that are used back into it.
pub(super) fn read(call: &mut Call<'_>) -> Result<Config, Fault> {
    call.expect(1, Kind::Table, "table")?;
    let default = Config::default();
    let mut fields = Fields(call);
    let most = 1 << 24;
    Ok(Config {
        worker: fields.integer("worker", (1, 256), default.worker)?,
        io: fields.integer("io", (1, 64), default.io)?,
        queue: fields.integer("queue", (1, most), default.queue)?,
        queue_sending: fields.integer("queue_sending", (1, most), default.queue_sending)?,
        max_service: fields.integer("max_service", (2, 1 << 20), default.max_service)?,
        external_queue: fields.integer("external_queue", (1, most), default.external_queue)?,
        log_queue: fields.integer("log_queue", (1, most), default.log_queue)?,
        watchdog: fields.seconds("watchdog", default.watchdog)?,
        max_run_time: fields.seconds("max_run_time", default.max_run_time)?,
        full: fields.full()?,
        crashlog: fields.string("crashlog")?,
        debuglog: fields.string("debuglog")?,
    })
}
