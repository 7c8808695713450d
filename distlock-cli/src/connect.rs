//! Connecting as the general options say.

use distlock::LockManager;

use crate::args::General;
use crate::exit::Exit;

/// Connects, or says why not.
pub(crate) async fn connect(general: &General) -> Result<LockManager, Exit> {
    let Some(url) = &general.url else {
        return Err(Exit::Usage.because(
            "where are the locks? Give `--url redis://…`, or set the environment variable DISTLOCK_URL",
        ));
    };
    let name = general.name.clone().unwrap_or_else(|| format!("cli-{}", std::process::id()));
    let builder = LockManager::builder().url(url).key_prefix(&general.prefix).client_name(name);
    let manager = builder.connect().await.map_err(|error| Exit::told(&error))?;
    if general.verbose {
        eprintln!("distlock: connected: {manager:?}");
    }
    Ok(manager)
}
