//! Connects with the general options.

use std::path::Path;

use distlock::LockManager;

use crate::args::General;
use crate::exit::Exit;
use crate::out::complain;

const URL: &str = "DISTLOCK_URL";
const URL_FILE: &str = "DISTLOCK_URL_FILE";

impl General {
    /// The URL of the store. It is read once, because a file may be a pipe.
    pub(crate) fn url(&self) -> Result<&str, Exit> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let found = self.find_url()?;
        Ok(self.found.get_or_init(|| found))
    }

    fn find_url(&self) -> Result<String, Exit> {
        if let Some(url) = &self.url {
            return Ok(url.clone());
        }
        if let Some(file) = &self.url_file {
            return read(file, "--url-file");
        }
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        match (variable(URL), variable(URL_FILE)) {
            (Some(_), Some(_)) => Err(Exit::Usage.because(&format!("set {URL} or {URL_FILE}, not both"))),
            (Some(url), None) => {
                url.into_string().map_err(|_| Exit::Usage.because(&format!("{URL} is not UTF-8")))
            }
            (None, Some(file)) => read(file.as_ref(), URL_FILE),
            (None, None) => Err(Exit::Usage.because(&missing())),
        }
    }
}

/// Never prints the content of the file.
fn read(file: &Path, named_by: &str) -> Result<String, Exit> {
    match std::fs::read_to_string(file) {
        Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        Ok(_) => Err(Exit::Usage.because(&format!("{named_by}: {} is empty", file.display()))),
        Err(error) => Err(Exit::Usage.because(&format!("{named_by}: {}: {error}", file.display()))),
    }
}

fn missing() -> String {
    let text = format!(
        "no store is named: give `--url redis://…` or `--url-file FILE`, or set the environment variable \
         {URL} or {URL_FILE}"
    );
    if std::env::var_os("DISTLOCK_TOKEN").is_some() {
        return format!(
            "{text}. (`distlock run` removes {URL} from the environment of its command, unless it has \
             --pass-url)"
        );
    }
    text
}

/// Connects, or prints the reason of the failure.
pub(crate) async fn connect(general: &General) -> Result<LockManager, Exit> {
    let url = general.url()?;
    let name = general.name.clone().unwrap_or_else(|| format!("cli-{}", std::process::id()));
    let builder = LockManager::builder().url(url).key_prefix(&general.prefix).client_name(name);
    let manager = builder.connect().await.map_err(|error| Exit::told(&error))?;
    if general.verbose {
        complain(format_args!("connected: {manager:?}"));
    }
    Ok(manager)
}
