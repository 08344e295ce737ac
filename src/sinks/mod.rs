//! Where records go, one sink a folder.
