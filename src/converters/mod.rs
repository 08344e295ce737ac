//! Bytes to values, one format a file.
