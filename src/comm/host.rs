//! Ranks as threads of the host.
