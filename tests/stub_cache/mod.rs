//! Where the stub driver keeps what it made of kernels' texts: outside the clone, under a hash of
//! everything that it depends on, so that each text is compiled once for all clones.

use std::{env, path::PathBuf};

/// `stub` in `$FIZEAU_CHECK_CACHE`, or in `fizeau-checks` of the user's cache.
pub fn folder() -> PathBuf {
    let named = env::var_os("FIZEAU_CHECK_CACHE").map(PathBuf::from);
    let caches = || env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
    let cache = || caches().or_else(home).unwrap_or_else(env::temp_dir).join("fizeau-checks");
    named.unwrap_or_else(cache).join("stub")
}
