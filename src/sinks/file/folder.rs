//! Folders and files that are there after a crash, too.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// The folder that a path lies in.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Opens a file for appending. Makes it, and the folders above it, if they
/// are missing.
pub(super) fn open_for_append(path: &Path) -> io::Result<File> {
    let folder = folder_of(path);
    make_folder(folder)?;
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)?;
    if !file.metadata()?.is_file() {
        let cause = "it is not a regular file, so it cannot be synced";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, cause));
    }
    sync_folder(folder)?;
    Ok(file)
}

fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    make_folder(folder_of(folder))?;
    match fs::create_dir(folder) {
        // Another task was faster; or it is a file, which the open will say.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    sync_folder(folder_of(folder))
}

/// Makes the names in a folder last.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
