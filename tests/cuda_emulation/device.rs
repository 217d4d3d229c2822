//! The emulated graphics device, seen from Rust: builds `emulator.cpp` with g++ and speaks to it through pipes.
//!
//! It is a process of its own, as a device is: kernels see only what was uploaded, and a kernel that aborts or trips the
//! address sanitizer shows as an error of the next download.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use oupn_cuda::{Argument, Element, Gemm, Geometry, Gpu};
use oupn_edge::{Error, Result};

/// In which order the threads of a block, and the blocks of a grid, run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Forward,
    Reverse,
}

/// A version of the emulator: as it should be, or with every barrier taken out of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Build {
    Sound,
    WithoutBarriers,
}

/// Past the capture of the test's output: a test that was skipped must not look like one that passed.
fn say(message: &str) {
    let _ = writeln!(std::io::stderr(), "cuda emulation: {message}");
}

/// The emulator's executable, or `None` where there is no g++ to build it with. Built once for each state of its
/// sources: the file's name carries their hash.
pub(crate) fn executable(build: Build) -> Option<PathBuf> {
    // Tests run on threads: the first one builds, the others wait.
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());

    if Command::new("g++").arg("--version").output().is_err() {
        say("skipped: there is no g++ to build the CUDA emulation with; scripts/setup installs it");
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (kernels, emulation) = (root.join("crates/cuda/src"), root.join("tests/cuda_emulation"));
    let mut hasher = DefaultHasher::new();
    build.hash(&mut hasher);
    let mut sources: Vec<PathBuf> = [&kernels, &emulation]
        .into_iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()))
        .collect();
    sources.retain(|source| source.extension().is_some_and(|kind| kind != "rs"));
    sources.sort();
    sources.iter().for_each(|source| fs::read(source).unwrap().hash(&mut hasher));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let target = folder.join(format!("cuda-emulator-{:016x}", hasher.finish()));
    if target.exists() {
        return Some(target);
    }
    let compile = |sanitize: &[&str]| {
        let unfinished = folder.join(format!("cuda-emulator-{}", std::process::id()));
        let mut command = Command::new("g++");
        command.args(["-std=c++17", "-O1", "-g"]);
        command.args(sanitize).arg("-I").arg(&kernels).arg("-I").arg(&emulation);
        if build == Build::WithoutBarriers {
            command.arg("-DWITHOUT_BARRIERS");
        }
        let output = command.arg(emulation.join("emulator.cpp")).arg("-o").arg(&unfinished).output().unwrap();
        if output.status.success() {
            fs::rename(&unfinished, &target).unwrap();
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    if compile(&["-fsanitize=address"]).is_err() {
        say("this g++ has no address sanitizer: accesses outside of a buffer go unnoticed");
        compile(&[]).unwrap_or_else(|message| panic!("the CUDA kernels do not compile:\n{message}"));
    }
    Some(target)
}

/// A device: one process of the emulator.
#[derive(Clone)]
pub(crate) struct Emulated(Arc<Mutex<Connection>>);

struct Connection {
    child: Child,
    requests: Option<ChildStdin>,
    allocated: u32,
}

/// Memory of the emulated device.
pub(crate) struct Buffer {
    device: Emulated,
    number: u32,
    element: Element,
    len: usize,
}

impl Emulated {
    pub(crate) fn start(executable: &Path, order: Order) -> Self {
        let mut child = Command::new(executable)
            .args((order == Order::Reverse).then_some("reverse"))
            // Fibres have stacks of their own, which this check of the sanitizer does not understand.
            .env("ASAN_OPTIONS", "detect_stack_use_after_return=0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let requests = child.stdin.take();
        Self(Arc::new(Mutex::new(Connection { child, requests, allocated: 0 })))
    }

    fn send(&self, request: &[u8]) -> Result<()> {
        let mut connection = self.0.lock().unwrap();
        let Some(requests) = &mut connection.requests else {
            return Err(Error::Device("the emulator has ended".into()));
        };
        if requests.write_all(request).and_then(|()| requests.flush()).is_err() {
            return Err(connection.what_went_wrong());
        }
        Ok(())
    }

    fn receive(&self, bytes: usize) -> Result<Vec<u8>> {
        let mut connection = self.0.lock().unwrap();
        let mut reply = vec![0; bytes];
        if connection.child.stdout.as_mut().unwrap().read_exact(&mut reply).is_err() {
            return Err(connection.what_went_wrong());
        }
        Ok(reply)
    }
}

impl Connection {
    fn what_went_wrong(&mut self) -> Error {
        self.requests = None;
        let mut message = String::new();
        self.child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut message));
        Error::Device(message)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.requests = None;
        let _ = self.child.wait();
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // A device that has failed frees everything by itself.
        let _ = self.device.send(&Request::new(b'F').number(self.number).0);
    }
}

/// The bytes of one request.
struct Request(Vec<u8>);

impl Request {
    fn new(letter: u8) -> Self {
        Self(vec![letter])
    }

    fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    fn number(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend((bytes.len() as u32).to_le_bytes());
        self.0.extend(bytes);
        self
    }
}

impl Gpu for Emulated {
    type Buffer = Buffer;

    fn allocate(&mut self, element: Element, len: usize) -> Result<Buffer> {
        let kind = match element {
            Element::F32 => 0,
            Element::F16 => 1,
            Element::Bf16 => 2,
        };
        self.send(&Request::new(b'A').number(kind).number(len as u32).0)?;
        let mut connection = self.0.lock().unwrap();
        let number = connection.allocated;
        connection.allocated += 1;
        Ok(Buffer { device: self.clone(), number, element, len })
    }

    fn upload(&mut self, from: &[f32], to: &mut Buffer) -> Result<()> {
        let bytes = to.element.encode(from);
        self.send(&Request::new(b'U').number(to.number).bytes(&bytes).0)
    }

    fn download(&mut self, from: &Buffer, offset: usize, to: &mut [f32]) -> Result<()> {
        self.send(&Request::new(b'D').number(from.number).0)?;
        let bytes = self.receive(from.len * from.element.bytes())?;
        from.element.decode(&bytes[offset * from.element.bytes()..], to);
        Ok(())
    }

    fn launch(
        &mut self,
        kernel: &str,
        geometry: Geometry,
        arguments: &mut [Argument<'_, Buffer>],
    ) -> Result<()> {
        let Geometry { grid, block, shared_floats } = geometry;
        let mut request = Request::new(b'L').bytes(kernel.as_bytes());
        for extent in [grid[0], grid[1], 1, block[0], block[1], 1, shared_floats, arguments.len() as u32] {
            request = request.number(extent);
        }
        for argument in arguments {
            request = match argument {
                Argument::Input(buffer, offset) => {
                    request.byte(b'i').number(buffer.number).number(*offset as u32)
                }
                Argument::Output(buffer, offset) => {
                    request.byte(b'o').number(buffer.number).number(*offset as u32)
                }
                Argument::Int(value) => request.byte(b'n').number(value.cast_unsigned()),
            };
        }
        self.send(&request.0)
    }

    fn gemm(
        &mut self,
        gemm: &Gemm,
        a: (&Buffer, usize),
        b: (&Buffer, usize),
        c: (&mut Buffer, usize),
    ) -> Result<()> {
        let Gemm { transpose_a, transpose_b, m, n, k, leading, beta } = *gemm;
        let letter = |transpose| if transpose { b'T' } else { b'N' };
        let mut request = Request::new(b'G').byte(letter(transpose_a)).byte(letter(transpose_b));
        for extent in [m, n, k] {
            request = request.number(extent.cast_unsigned());
        }
        let matrices = [(a.0, a.1), (b.0, b.1), (&*c.0, c.1)];
        for ((buffer, offset), leading) in matrices.into_iter().zip(leading) {
            request = request.number(buffer.number).number(offset as u32).number(leading.cast_unsigned());
        }
        self.send(&request.number(beta.to_bits()).0)
    }
}
