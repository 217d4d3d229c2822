//! Puts a run together: data folder, weights or checkpoint, source, threads.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::anchor::Anchor;
use super::calibration::Calibrator;
use super::checkpoint::{self, Keeper, Restored};
use super::feed::{Feed, Recording as Tape};
use super::learning::{self, LearnerThread, Pupil, Student};
use super::live::LivePath;
use super::liveness::Liveness;
use super::machine::Machine;
use super::pace::StridePace;
use super::paused;
use super::plan::RunPlan;
use super::remembered::Remembered;
use super::recording::{Counts, Ended, Recording, Terms};
use super::ring::{Ring, Sample};
use super::sampler::Sampler;
use super::signals::Signals;
use super::socket::ControlSocket;
use super::status::{Requests, Status};
use super::thumbnails::{self, Thumbnails};
use crate::camera::{self, Camera, Capture, Frame, Kind, Options};
use crate::config::Settings;
use crate::device::clock::{Clock, SystemClock};
use crate::device::service::ServiceManager;
use crate::device::{Sensors, board};
use crate::encoder::card::{InputScaling, ModelCard, OF_THE_DATA};
use crate::encoder::inference::{Folded, Inference};
use crate::encoder::init::random_parameters;
use crate::encoder::{Parameters, Plan, Statistics, TrainingOptions, Weights};
use crate::learner::Adam;
use crate::learner::saved;
use crate::learner::update::{Learner, LearnerState};
use crate::memory::{Control, LiveMemory, Prototypes};
use crate::storage::{
    CheckpointStore, Faulty, Filesystem, FolderLock, OsFilesystem, create_private_folder, make_private,
};
use crate::trace::{self, Record, TraceSettings, TraceWriter};
use crate::views::Pairing;
use crate::{Error, Result};

/// How long closing the trace may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(20);

/// A run that is ready to go. Dropping it lets go of everything.
#[derive(Debug)]
pub struct Run {
    pub(super) recording: Recording,
    writer: TraceWriter,
    /// What watchers see.
    pub status: Arc<Status>,
    /// What they can ask for.
    pub requests: Requests,
    _socket: Option<ControlSocket>,
    _lock: FolderLock,
}

/// The encoder that a run starts with.
struct Start {
    card: ModelCard,
    parameters: Parameters,
    statistics: Statistics,
    control: Control,
}

impl Run {
    /// Opens everything that the plan names. After this only the world can fail.
    pub fn open(plan: &RunPlan) -> Result<Self> {
        let fs: Arc<dyn Filesystem> = Arc::new(OsFilesystem);
        let data = &plan.data;
        create_private_folder(data).map_err(|error| {
            Error::io(data, error).expecting("a place where the folder of --data can be made")
        })?;
        let lock = FolderLock::acquire(data)?;
        for folder in ["trace", "checkpoints", "thumbnails"].map(|name| data.join(name)) {
            // It may be somebody else's, or on a disk that knows no owners: no reason not to record.
            if let Err(error) = make_private(&folder) {
                log::warn!("{}: others may be able to read it: {error}", folder.display());
            }
        }
        let camera: Camera = plan.camera.parse()?;
        let network = plan.settings.plan()?;

        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let mut settings = TraceSettings::default();
        settings.disk.reserve_bytes = plan.reserve_bytes;
        let (writer, recovery) =
            TraceWriter::open(Arc::clone(&fs), &data.join("trace"), settings, Arc::clone(&clock))?;
        if recovery.cut_bytes > 0 {
            log::warn!(
                "the end of the trace was damaged: {} bytes ({} lines) were cut off",
                recovery.cut_bytes,
                recovery.cut_lines
            );
        }
        let store = CheckpointStore::open(Arc::clone(&fs), &data.join("checkpoints"))?;
        if let Some(pending) = &recovery.pending_forget {
            store.remove_from(pending.from_seq)?;
            // Nobody waits for an answer, and the recording is worth more than to end here.
            if let Err(error) = thumbnails::forget(data, pending) {
                log::error!("not everything was forgotten: {error}");
            }
            let removed = writer.remove_forgotten()?;
            log::info!("a forget that had been interrupted was finished: {removed} records");
        }
        // Where it was when it was asked to forget; what it saw before is not to be seen again.
        let forgot_at = recovery.pending_forget.and_then(|pending| pending.place);

        let before = Remembered::read(&*fs, data)?;
        let found = checkpoint::newest(&store, Faulty::PutAside, &network, plan.settings.slots)?;
        let resumed_from = found.as_ref().and_then(|(checkpoint, _)| {
            checkpoint.path.file_name().map(|name| name.to_string_lossy().into_owned())
        });
        let restored = found.map(|(_, restored)| restored);
        // A recording goes on with its own weights: the file that they once came from may be gone.
        let start = match &restored {
            Some(restored) => {
                check_network(&restored.card, &plan.settings, "the newest checkpoint")?;
                Start::of(restored)
            }
            None => start_weights(plan, &network)?,
        };
        let compute = plan.device.open()?;
        let compute_name = compute.name();
        let options = TrainingOptions { memory_budget: plan.memory_budget, ..TrainingOptions::default() };
        let encoder = compute.training_encoder(Arc::new(network.clone()), options, plan.threads)?;

        let scaling = start.card.input.clone();
        let card = start.card.to_toml()?;
        let mut live = live_path(plan, &network, &start, &scaling)?;
        live.cold = plan.model.is_none();
        let settings = &plan.settings;
        let mut learner = Learner::new(settings, &network, encoder, start.parameters, start.statistics)?;
        learner.state.control = start.control;
        let pool = learning::pool(plan.threads)?;
        let mut pupil = pool.install(|| Pupil::new(learner, network.clone(), scaling, settings.clone()))?;

        let companions = settings.views == Pairing::NextFrame;
        let mut sampler = Sampler::new(plan.period, companions);
        let mut ring = Ring::new(settings.window, 0);
        let mut pace = StridePace::new(settings.stride, settings.window, settings.stride);
        let (mut next_frame, mut counts, mut ran_before) = (0, Counts::default(), Duration::ZERO);
        let header = restored.as_ref().map(|restored| restored.live.header.clone());
        // The place in a recording is a place in that recording alone.
        let same_source = before.is_none_or(|before| camera::same(&before.camera, &plan.camera))
            && header.as_ref().is_none_or(|header| camera::same(&header.camera, &plan.camera));
        let place = header.as_ref().filter(|_| same_source).map_or(0, |header| header.next_sequence);
        let place = forgot_at.filter(|_| same_source).map_or(place, |forgot| place.max(forgot.sequence));
        let mut used = restored.as_ref().map(|restored| restored.live.used).unwrap_or_default();
        let mut feed = open_feed(plan, &camera, place)?;
        // Only now: a source that could not be opened is not this recording's.
        Remembered::of(plan).write(&*fs, data)?;
        let reads_on = same_source && feed.recording().is_some();
        let mut window = Vec::new();
        if let (Some(Restored { live: part, learner, .. }), Some(header)) = (restored, header) {
            let publication = pupil.restore(learner)?;
            live.take_up(publication)?;
            live.control = part.control;
            live.memory = part.memory;
            live.calibrator = part.calibrator;
            next_frame = header.frame;
            ran_before = Duration::from_secs(header.running_s);
            counts.resume(header.calibrated);
            pace = StridePace::new(settings.stride, settings.window, header.stride);
            ring = Ring::new(settings.window, header.window_start);
            window = part.samples;
            if let Some(tape) = feed.recording()
                && reads_on
            {
                sampler = header.sampler.clone().with(plan.period, companions);
                if window.is_empty() && tape.goes_back() {
                    window = read_again(tape, &mut live, &header.samples)?;
                }
            }
        }
        let (frames, categories) = trace::numbers_after(&*fs, &data.join("trace"), used.seq)?;
        used.frames = used.frames.max(frames);
        used.categories = used.categories.max(categories);
        if let Some(forgot) = forgot_at {
            next_frame = next_frame.max(forgot.frame);
            live.memory = with_next_id(&live.memory, forgot.category)?;
            sampler.restart();
            window.clear();
        }
        if !reads_on {
            // Neither a camera nor another source goes back: numbers that the trace has seen are not given again.
            next_frame = next_frame.max(used.frames);
            live.memory = with_next_id(&live.memory, used.categories)?;
        }
        if window.last().is_some_and(|last| last.frame + 1 == next_frame) {
            window.into_iter().for_each(|sample| ring.push(sample));
        } else {
            ring.clear(next_frame);
        }

        let status = Arc::new(Status::default());
        let (requests, waiting) = Requests::queue();
        let socket = match ControlSocket::open(data, Arc::clone(&status), requests.clone()) {
            Ok(socket) => Some(socket),
            // A path that is too long, a file system without sockets: the recording is worth more.
            Err(error) => {
                log::warn!("{error}: `pause`, `resume`, `forget` and `status` cannot reach this recording");
                None
            }
        };
        let keeper =
            Keeper { store: store.clone(), recorder: writer.recorder(), settings: settings.to_toml(), card };
        let machine_board = board::read(Path::new("/"));
        let known = [machine_board.model, machine_board.release, machine_board.power_mode];
        writer.record(Record::Start(Box::new(trace::Start {
            trace_version: trace::VERSION,
            program: concat!("oupn-edge ", env!("CARGO_PKG_VERSION")).to_owned(),
            device: plan.device_name.clone(),
            board: known.into_iter().flatten().collect::<Vec<_>>().join(", "),
            source: feed.describe(),
            compute: compute_name,
            settings: serde_json::to_value(settings).unwrap_or_default(),
            frame: next_frame,
            resumed_from,
            recorded: Some(feed.recording().is_some()),
            continues: feed.recording().map(|_| reads_on),
        })));
        writer.record(Record::Camera(trace::Camera {
            state: trace::CameraState::Opened,
            detail: Some(feed.describe()),
            away_s: None,
        }));
        counts.forget_to_end = recovery.pending_forget.is_some();
        let paused = paused::is_set(&*fs, data);
        if paused {
            counts.paused_since = Some(Instant::now());
            writer.record(Record::Pause(trace::Pause { by: "restart".to_owned() }));
            log::warn!(
                "the recording is still paused: nothing is looked at until `oupn-edge resume --data {}`",
                data.display()
            );
        }
        let now = clock.now();
        status.change(|snapshot| {
            snapshot.paused = paused;
            snapshot.device.clone_from(&plan.device_name);
            snapshot.data.clone_from(data);
            snapshot.started = Some(now);
            snapshot.feed.description = feed.describe();
            snapshot.feed.present = true;
            snapshot.period_s = plan.period.as_secs_f64();
            snapshot.stride = pace.stride();
            snapshot.categories = live.categories() as u64;
            snapshot.founded = live.memory.next_id();
        });

        let size = network.image;
        let thumbnails =
            plan.keep_thumbnails.then(|| Thumbnails::open(data, size.width, size.height)).transpose()?;
        let realtime = plan.realtime || matches!(feed, Feed::Camera(_));
        let recording = Recording {
            terms: Terms {
                camera: plan.camera.clone(),
                period: plan.period,
                realtime,
                companions,
                frames: plan.frames,
                time: plan.time,
                checkpoint_every: plan.checkpoint_every,
                keep_window: plan.keep_window,
                ran_before,
            },
            learner: LearnerThread::start(Box::new(pupil), keeper, pool)?,
            recorder: writer.recorder(),
            origin: plan.clone(),
            status: Arc::clone(&status),
            requests: waiting,
            signals: Signals::listen()?,
            manager: ServiceManager::from_env(),
            machine: Machine::new(Sensors::system(), data),
            feed,
            sampler,
            live,
            ring,
            pace,
            store,
            clock,
            thumbnails,
            next_frame,
            used,
            liveness: Liveness::new(Instant::now()),
            anchors: vec![Anchor::of(lock.path().to_path_buf())?, Anchor::of(data.join("trace"))?],
            newer_trace: recovery.newer_segments > 0,
            counts,
        };
        Ok(Self { recording, writer, status, requests, _socket: socket, _lock: lock })
    }

    /// Runs until something ends it.
    pub fn run(self) -> Result<Ended> {
        let ended = self.recording.run();
        match (ended, self.writer.close(CLOSE_PATIENCE)) {
            (Ok(ended), closed) => closed.map(|()| ended),
            // What ended the run is the first thing to know.
            (Err(error), closed) => {
                if let Err(closing) = closed {
                    log::error!("{closing}");
                }
                Err(error)
            }
        }
    }
}

impl Start {
    /// What a checkpoint holds.
    fn of(restored: &Restored) -> Self {
        Self {
            card: restored.card.clone(),
            parameters: restored.learner.parameters.clone(),
            statistics: restored.learner.statistics.clone(),
            control: restored.live.control,
        }
    }
}

/// Refuses weights of another network than the one that the settings describe. Names and shapes alone do not tell: the same
/// tensors with another padding or epsilon are another network, and every feature is a little wrong.
fn check_network(card: &ModelCard, settings: &Settings, file: &str) -> Result<()> {
    #[allow(clippy::cast_possible_truncation)]
    let asked = (settings.architecture(), settings.padding, settings.norm_epsilon as f32);
    let found = (card.encoder, card.padding, card.bn_epsilon);
    if asked == found {
        return Ok(());
    }
    let words = |(encoder, padding, epsilon)| {
        format!("{encoder} with padding = \"{padding}\" and norm_epsilon = {epsilon}")
    };
    Err(Error::input(format!(
        "{file}: its weights are of {}, but the settings say {}: leave these keys out of the settings file, or start in \
         another folder with --data",
        words(found),
        words(asked)
    )))
}

/// The weights to start from: the model's, or random ones.
fn start_weights(plan: &RunPlan, network: &Plan) -> Result<Start> {
    let settings = &plan.settings;
    let Some(path) = &plan.model else {
        let architecture = settings.architecture();
        let channels = architecture.image_channels();
        return Ok(Start {
            card: ModelCard {
                name: "from-scratch".into(),
                about: format!("{architecture} from random weights, learned on a device"),
                source: format!("seed {}", settings.seed),
                licence: OF_THE_DATA.into(),
                files: Vec::new(),
                padding: settings.padding,
                #[allow(clippy::cast_possible_truncation)]
                bn_epsilon: settings.norm_epsilon as f32,
                encoder: architecture,
                // The paper feeds pixels from 0 to 1 as they are.
                input: InputScaling {
                    size: settings.image_height,
                    mean: vec![0.0; channels],
                    deviation: vec![1.0; channels],
                },
            },
            parameters: random_parameters(architecture, network, settings.seed),
            statistics: network.fresh_statistics(),
            control: settings.control(),
        });
    };
    let weights = Weights::read(path)?;
    check_network(&weights.card, settings, &path.display().to_string())?;
    let control = saved::learned_control(path)?.unwrap_or_else(|| settings.control());
    let card = weights.card.learned("on a device");
    Ok(Start { card, parameters: weights.parameters, statistics: weights.statistics, control })
}

/// The learner's state before anything was learned.
pub(super) fn untaught(plan: &RunPlan) -> Result<LearnerState> {
    let network = plan.settings.plan()?;
    let start = start_weights(plan, &network)?;
    Ok(LearnerState {
        control: start.control,
        memory: Prototypes::new(plan.settings.slots, network.features)?,
        adam: Adam::new(start.parameters.values.len()),
        parameters: start.parameters,
        statistics: start.statistics,
    })
}

fn live_path(plan: &RunPlan, network: &Plan, start: &Start, scaling: &InputScaling) -> Result<LivePath> {
    let folded = Arc::new(Folded::new(network, &start.parameters, &start.statistics)?);
    Ok(LivePath::new(
        network.image,
        Inference::new(folded, plan.threads)?,
        scaling.clone(),
        plan.settings.rules(),
        LiveMemory::new(plan.settings.slots, network.features)?,
        start.control,
        plan.calibrate.then(|| Calibrator::new(network.features)),
    ))
}

fn open_feed(plan: &RunPlan, camera: &Camera, next_sequence: u64) -> Result<Feed> {
    let side = plan.settings.image_height.max(plan.settings.image_width);
    let options = Options { period: Some(plan.period), side: Some(side), ..plan.camera_options.clone() };
    let source = camera.open(&options)?;
    let start_time = options.start_time;
    Ok(match source.kind() {
        Kind::Live if start_time.is_some() => {
            return Err(Error::input(format!(
                "--start-time is for recordings: {} is live, and its frames have the time of now",
                plan.camera
            )));
        }
        Kind::Live => Feed::Camera(Capture::of(source, camera, &options)?),
        Kind::Recorded | Kind::BuiltIn => {
            Feed::Recording(Tape::new(source, plan.period, plan.realtime, next_sequence, start_time)?)
        }
    })
}

/// The samples that learning can still reach, from a source that can be read again.
fn read_again(
    tape: &mut Tape,
    live: &mut LivePath,
    samples: &[(u64, u64, Option<u64>)],
) -> Result<Vec<Sample>> {
    let mut picture = Frame::default();
    let mut read = |sequence: u64| {
        if tape.read_again(sequence, &mut picture)? {
            return live.prepare(&picture);
        }
        Err(Error::input(format!(
            "frame {sequence} of the source is no longer there: the recording goes on only with the source it began with"
        )))
    };
    samples
        .iter()
        .map(|&(frame, sequence, companion)| {
            let pixels = read(sequence)?;
            let companion =
                companion.map(|sequence| Ok::<_, Error>((sequence, read(sequence)?))).transpose()?;
            Ok(Sample { frame, sequence, pixels, companion })
        })
        .collect()
}

/// The same memory, whose next category has at least this number.
pub(super) fn with_next_id(memory: &LiveMemory, next_id: u64) -> Result<LiveMemory> {
    LiveMemory::from_parts(
        memory.prototypes().clone(),
        memory.ids().to_vec(),
        memory.ages().to_vec(),
        memory.next_id().max(next_id),
    )
}
