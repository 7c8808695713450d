//! A command line of `--name value` pairs.

use std::collections::BTreeMap;

/// What the caller of an example asked for.
#[derive(Debug, Clone, Default)]
pub struct Args {
    values: BTreeMap<String, String>,
}

impl Args {
    /// Reads pairs of one of `names` and a value.
    ///
    /// # Errors
    /// What to tell the caller.
    pub fn parse(args: impl Iterator<Item = String>, names: &[&str]) -> Result<Self, String> {
        // `--name=value` reads like `--name value`.
        let mut args = args.flat_map(|arg| match arg.split_once('=') {
            Some((name, value)) if name.starts_with("--") => vec![name.to_owned(), value.to_owned()],
            _ => vec![arg],
        });
        let mut values = BTreeMap::new();
        while let Some(name) = args.next() {
            if !names.contains(&name.as_str()) {
                return Err(format!("unknown argument `{name}`"));
            }
            let value = args.next().ok_or_else(|| format!("`{name}` needs a value"))?;
            values.insert(name, value);
        }
        Ok(Self { values })
    }

    /// The value of `name`, if it was given.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Where the locks are kept.
    #[must_use]
    pub fn url(&self) -> &str {
        self.text("--url").unwrap_or("memory:")
    }

    /// A positive number.
    ///
    /// # Errors
    /// What to tell the caller.
    pub fn number(&self, name: &str, default: usize) -> Result<usize, String> {
        match self.text(name).map(str::parse) {
            None => Ok(default),
            Some(Ok(number @ 1..)) => Ok(number),
            Some(_) => Err(format!("`{name}` must be a number from 1 on")),
        }
    }
}
