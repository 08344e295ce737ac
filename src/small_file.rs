//! Files that a setting names: stores, certificates, keys. Whoever may have a
//! configuration validated may name any file, so that not everything that has
//! a path is read.

use std::fs::File;
use std::io::Read;

use rustix::fs::{Mode, OFlags, open};

/// More than any store of certificates has.
const MOST: u64 = 1 << 20;

/// All of a file, or what is wrong with it, to be told behind its path.
pub(crate) fn read(path: &str) -> Result<Vec<u8>, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    // A pipe without a writer would block here otherwise.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty()).map_err(|error| unreadable(error.into()))?;
    let file = File::from(file);
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err("is no regular file; name one".into());
    }
    let mut bytes = Vec::new();
    // Also one that grows meanwhile.
    let read = file.take(MOST + 1).read_to_end(&mut bytes);
    read.map_err(unreadable)?;
    if bytes.len() as u64 > MOST {
        return Err("is larger than 1 MiB; name a file of certificates or keys".into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    #[test]
    fn a_file_is_read_up_to_a_mebibyte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.pem").display().to_string();
        let most = vec![b'x'; MOST as usize];
        fs::write(&path, &most).unwrap();
        assert_eq!(read(&path), Ok(most));
        fs::write(&path, vec![b'x'; MOST as usize + 1]).unwrap();
        assert!(read(&path).unwrap_err().contains("larger than 1 MiB"));
        let missing = read("/nowhere/store.pem").unwrap_err();
        assert!(missing.starts_with("cannot be read: "), "{missing}");
    }

    #[test]
    fn what_is_no_file_neither_fills_the_memory_nor_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let folder = folder.path().display().to_string();
        for path in ["/dev/zero", &pipe.display().to_string(), &folder] {
            let refused = read(path).unwrap_err();
            assert!(refused.contains("is no regular file"), "{path}: {refused}");
        }
    }
}
