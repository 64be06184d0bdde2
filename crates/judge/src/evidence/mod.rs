//! Evidence: what makes the directory of an acceptance a bundle that others can check. Pure: what a
//! bundle's files hold goes in, a manifest, a fault or the same verdict again comes out. What walks
//! directories and calls `ssh-keygen` is `cmd::bundle`.

pub mod account;
pub mod follow;
pub mod keys;
pub mod manifest;
pub mod whose;

/// The names of a bundle's files, below its directory.
pub mod file {
    /// SHA-256 and size of each other file: what is signed.
    pub const MANIFEST: &str = "manifest.json";
    /// The signature of the manifest, in the form of `ssh-keygen -Y sign`.
    pub const SIGNATURE: &str = "manifest.json.sig";
    /// Who was judged ([`fizeau_record::identity::Identity`]).
    pub const IDENTITY: &str = "identity.json";
    /// What was done ([`super::account::Account`]).
    pub const ACCOUNT: &str = "account.json";
    /// The node at rest, before anything was measured.
    pub const STATE: &str = "state.json";
    /// The node at rest, after everything was measured.
    pub const STATE_AFTER: &str = "state-after.json";
    /// Below it: states and verdicts of an acceptance that was continued, as each earlier part of
    /// it left them.
    pub const EARLIER: &str = "earlier";
    /// The verdict.
    pub const VERDICT: &str = "verdict.json";
    /// The rows of a fleet's store that the records come to ([`crate::fleet::row`]).
    pub const ROWS: &str = "rows.jsonl";
    /// Below it: the record of each repeat on each device.
    pub const ROUNDS: &str = "rounds";
    /// Below it: what was measured between nodes.
    pub const LOCALISE: &str = "localise";
    /// The rates of exchanges between nodes.
    pub const EXCHANGES: &str = "exchanges.json";
    /// Below it: each profile that was used, as `--profile` takes it.
    pub const PROFILES: &str = "profiles";
    /// A folder with one of these is that of an acceptance, whatever became of it.
    pub const OF_A_BUNDLE: [&str; 5] = [VERDICT, ROUNDS, ACCOUNT, MANIFEST, IDENTITY];
}
