//! A device with scripted times and faults, for tests. Never a source of a number.
