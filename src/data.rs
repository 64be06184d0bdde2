//! The catalogue: parts, hosts, links and suites, embedded, or read from a directory.
