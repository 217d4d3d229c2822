//! The real [`Filesystem`]: the operating system's calls, one each.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use super::{File, Filesystem, create_private_folder, private_file};

/// The operating system's files.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsFilesystem;

impl Filesystem for OsFilesystem {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        create_private_folder(dir)?;
        // A new folder is a name in its parent. Parents made on the way are covered by the journal of every file
        // system in use on such devices; the last one is cheap to make sure of.
        match dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => self.sync_dir(parent),
            _ => Ok(()),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(OsFile(private_file().write(true).create(true).truncate(true).open(path)?)))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(OsFile(private_file().append(true).create(true).open(path)?)))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(fs::File::open(path)?))
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        let file = fs::OpenOptions::new().write(true).open(path)?;
        file.set_len(len)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            // A name that is not UTF-8 is not one of ours.
            if let (true, Ok(name)) = (entry.file_type()?.is_file(), entry.file_name().into_string()) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        // `f_bavail`, not `f_bfree`: the blocks kept for the superuser are not ours to count on.
        let disk = rustix::fs::statvfs(dir)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }
}

struct OsFile(fs::File);

impl Write for OsFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl File for OsFile {
    fn sync(&mut self) -> io::Result<()> {
        // `fdatasync` covers the content and the length; only times may lag behind, and nothing here reads them.
        self.0.sync_data()
    }

    fn allocate(&mut self, len: u64) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        match rustix::fs::fallocate(&self.0, rustix::fs::FallocateFlags::empty(), 0, len) {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
            outcome => return Ok(outcome?),
        }
        write_zeros(&mut self.0, len)
    }
}

/// Where the file system cannot reserve blocks, zeros take them (a compressing file system would cheat us here).
fn write_zeros(file: &mut fs::File, len: u64) -> io::Result<()> {
    io::copy(&mut io::repeat(0).take(len), file).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_files_behave_as_the_trait_says() {
        let folder = tempfile::tempdir().unwrap();
        let (fs, dir) = (OsFilesystem, folder.path().join("a/b"));
        fs.create_dir_all(&dir).unwrap();
        fs.create_dir_all(&dir).unwrap();
        let path = dir.join("one");

        let mut file = fs.append(&path).unwrap();
        file.write_all(b"hello ").unwrap();
        file.sync().unwrap();
        fs.append(&path).unwrap().write_all(b"world").unwrap();
        assert_eq!(fs.len(&path).unwrap(), 11);
        fs.truncate(&path, 5).unwrap();
        // The handle that was opened before the cut still writes at the end, wherever that is now.
        file.write_all(b"!").unwrap();
        assert_eq!(super::super::read_bounded(&fs, &path, 6).unwrap(), b"hello!");
        assert!(super::super::read_bounded(&fs, &path, 5).is_err());

        fs.rename(&path, &dir.join("two")).unwrap();
        fs.sync_dir(&dir).unwrap();
        assert_eq!(fs.list(&dir).unwrap(), ["two"]);
        assert_eq!(fs.list(folder.path()).unwrap(), Vec::<String>::new(), "folders are not listed");
        fs.create(&dir.join("two")).unwrap();
        assert_eq!(fs.len(&dir.join("two")).unwrap(), 0);
        fs.remove(&dir.join("two")).unwrap();
        assert!(fs.read(&dir.join("two")).is_err());
    }

    #[test]
    fn allocated_space_is_taken_from_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reserve");
        let mut file = OsFilesystem.create(&path).unwrap();
        file.allocate(1 << 20).unwrap();
        file.sync().unwrap();
        assert_eq!(OsFilesystem.len(&path).unwrap(), 1 << 20);
        let blocks = std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&path).unwrap());
        assert!(blocks * 512 >= 1 << 20, "only {blocks} blocks of 512 bytes were taken");
        assert!(OsFilesystem.free_bytes(folder.path()).unwrap() > 0);
    }
}
