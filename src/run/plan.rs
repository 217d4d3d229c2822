//! What a run is started with: what was asked for, what the folder remembers and what the weights need, made into one plan.
//!
//! Settings come from, each over the one before: the preset, what suits a device ([`Settings::for_device`]), the settings
//! file, single settings ([`Changes`]). A data folder that was used before goes on with the settings it has, under the
//! single ones. Weights bring the settings of their network and of a warm start.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::remembered::{Earlier, Remembered};
use crate::camera::{self, Options};
use crate::config::{Preset, Settings};
use crate::encoder::ModelCard;
use crate::encoder::device::DeviceChoice;
use crate::encoder::weights::BUILT_IN;
use crate::frame::PixelFormat;
use crate::memory::Variant;
use crate::model::check_network;
use crate::objective::Method;
use crate::views::{Augmentation, Pairing};
use crate::{Error, Result};

/// What stands for random weights, in the place of a file's name.
pub const RANDOM: &str = "random";

/// Time between samples, unless something else is asked for.
pub const PERIOD: Duration = Duration::from_secs(4);

/// Everything that a run is started with.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The data folder.
    pub data: PathBuf,
    /// Where frames come from, as given.
    pub camera: String,
    /// How it is opened.
    pub camera_options: Options,
    /// What is learned.
    pub settings: Settings,
    /// Weights to start from: a file, or [`BUILT_IN`]; without any, random ones.
    pub model: Option<PathBuf>,
    /// Time between samples.
    pub period: Duration,
    /// Whether the live threshold is measured.
    pub calibrate: bool,
    /// Whether a recorded source takes its time.
    pub realtime: bool,
    /// Frames to see.
    pub frames: Option<u64>,
    /// Time of the source to see.
    pub time: Option<Duration>,
    /// Time between checkpoints.
    pub checkpoint_every: Duration,
    /// Whether categories' pictures are kept on the disk.
    pub keep_thumbnails: bool,
    /// Whether checkpoints hold the window's pixels.
    pub keep_window: bool,
    /// Where the encoder trains.
    pub device: DeviceChoice,
    /// Threads of the processor; 0 for all.
    pub threads: usize,
    /// What the encoder may hold at once.
    pub memory_budget: usize,
    /// Bytes of the disk that are held back for the trace.
    pub reserve_bytes: u64,
    /// The name that was given to whoever or whatever is recorded.
    pub name: Option<String>,
    /// The name in the trace: that one, or the host's.
    pub device_name: String,
}

/// What is asked for when a recording is started. What is left open is decided by [`RunPlan::resolve`].
#[derive(Clone, Debug)]
pub struct Request {
    /// The data folder.
    pub data: PathBuf,
    /// Where frames come from.
    pub camera: Option<String>,
    /// The pixel format to ask the camera for.
    pub format: Option<PixelFormat>,
    /// The size to ask it for.
    pub resolution: Option<(u32, u32)>,
    /// The frames a second to ask it for.
    pub rate: Option<f64>,
    /// When the first frame of a recorded source was taken.
    pub start_time: Option<Timestamp>,
    /// Whether a recorded source takes its time.
    pub realtime: Option<bool>,
    /// Whether another source or name than the folder's own may go on in it.
    pub continue_with: bool,
    /// Who or what is recorded.
    pub name: Option<String>,
    /// Time between samples.
    pub period: Option<Duration>,
    /// Time between checkpoints.
    pub checkpoint_every: Duration,
    /// Bytes of the disk that are held back for the trace.
    pub reserve_bytes: u64,
    /// Time of the source to see.
    pub time: Option<Duration>,
    /// Frames to see.
    pub frames: Option<u64>,
    /// Weights to start from: a file, [`BUILT_IN`], or [`RANDOM`]. Unless it is said, a new recording takes the built-in ones, if
    /// neither the preset nor the settings file asks for another network.
    pub model: Option<PathBuf>,
    /// The preset that settings begin with.
    pub preset: Option<Preset>,
    /// The settings file.
    pub config: Option<PathBuf>,
    /// Single settings.
    pub changes: Changes,
    /// Whether the live threshold is measured.
    pub calibrate: Option<bool>,
    /// Whether categories' pictures are kept on the disk.
    pub keep_thumbnails: bool,
    /// Whether checkpoints hold the window's pixels.
    pub keep_window: bool,
    /// Where the encoder trains.
    pub device: DeviceChoice,
    /// Threads of the processor; 0 for all.
    pub threads: usize,
    /// What the encoder may hold at once.
    pub memory_budget: usize,
}

/// Single settings, over whatever else decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Frames of a window; the stride gets no longer than it.
    pub window: Option<usize>,
    /// Frames between updates.
    pub stride: Option<usize>,
    /// The encoder's learning rate.
    pub learning_rate: Option<f64>,
    /// What is computed where paper and released code differ.
    pub variant: Option<Variant>,
    /// What the second view is.
    pub views: Option<ViewChoice>,
    /// What is asked of the views.
    pub objective: Option<Method>,
    /// Start of every random sequence.
    pub seed: Option<u64>,
}

/// What the second view of a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewChoice {
    /// The picture a moment later, both changed only a little.
    Temporal,
    /// As the preset's paper has it.
    Augmented,
}

/// A plan, and what is to be said about how it came about.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The plan.
    pub plan: RunPlan,
    /// Sentences for whoever started it.
    pub warnings: Vec<String>,
}

impl RunPlan {
    /// The plan of a recording that was asked for so, in a folder that holds this of earlier starts. `card_of` reads the card
    /// of a weight file; it is called only if the card decides something.
    ///
    /// # Errors
    /// If there is nothing to see, if the folder is another recording's, or if settings contradict each other.
    pub fn resolve(
        request: Request,
        earlier: &Earlier,
        card_of: impl FnOnce(&Path) -> Result<ModelCard>,
    ) -> Result<Resolved> {
        let remembered = earlier.remembered.as_ref();
        let mut warnings = Vec::new();
        let (settings, model) = settings_and_model(&request, earlier, card_of, &mut warnings)?;
        let camera = camera(&request, remembered)?;
        let same_camera = remembered.filter(|remembered| camera::same(&remembered.camera, &camera));
        // What lies on the disk already need not be waited for.
        let usual = || same_camera.map_or(!camera::is_file(&camera), |remembered| remembered.realtime);
        let realtime = request.realtime.unwrap_or_else(usual);
        let mut camera_options = Options {
            format: request.format,
            resolution: request.resolution,
            rate: request.rate,
            live_pipe: realtime,
            start_time: request.start_time,
            ..Options::default()
        };
        // What was asked of one camera says nothing about another.
        if let Some(remembered) = same_camera {
            camera_options.start_time = request.start_time.or(remembered.start_time);
            camera_options.format = request.format.or(remembered.pixel_format()?);
            camera_options.resolution = request.resolution.or(remembered.resolution);
            camera_options.rate = request.rate.or(remembered.rate);
        }
        let remembered_period = remembered.map(|remembered| Duration::from_secs_f64(remembered.period_s));
        let calibrate = || remembered.is_none_or(|remembered| remembered.calibrate);
        let calibrate = request.calibrate.unwrap_or_else(calibrate);
        if !calibrate && !settings.objective.learns_control() {
            return Err(Error::input(format!(
                "the objective {} learns no threshold for new categories, so it has to be measured: leave --calibrate on",
                settings.objective
            )));
        }
        let name = request.name.or_else(|| remembered.and_then(|remembered| remembered.name.clone()));
        let plan = Self {
            camera,
            camera_options,
            settings,
            model,
            period: request.period.or(remembered_period).unwrap_or(PERIOD),
            calibrate,
            realtime,
            data: request.data,
            frames: request.frames,
            time: request.time,
            checkpoint_every: request.checkpoint_every,
            keep_thumbnails: request.keep_thumbnails,
            keep_window: request.keep_window,
            device: request.device,
            threads: request.threads,
            memory_budget: request.memory_budget,
            reserve_bytes: request.reserve_bytes,
            device_name: name.clone().unwrap_or_else(host_name),
            name,
        };
        Ok(Resolved { plan, warnings })
    }
}

/// The weights to start from, and the settings with which they are what they were.
fn settings_and_model(
    request: &Request,
    earlier: &Earlier,
    card_of: impl FnOnce(&Path) -> Result<ModelCard>,
    warnings: &mut Vec<String>,
) -> Result<(Settings, Option<PathBuf>)> {
    let (mut settings, model) = match (&earlier.remembered, &request.model) {
        (None, None) => usual(request)?,
        (None, Some(asked)) => {
            let model = file_of(asked);
            (anew(request, model, card_of)?, model.map(Path::to_path_buf))
        }
        (Some(remembered), asked) => {
            let own = remembered.model.as_deref();
            let other = asked.as_deref().map(file_of).filter(|asked| !is_same(*asked, own));
            let model = match other {
                Some(asked) if earlier.checkpoint => {
                    warnings.push(format!(
                        "--model {} is not used: {} has a checkpoint and goes on with the weights it has learned; to start \
                         from that model, record into another folder with --data",
                        asked.map_or(RANDOM.into(), Path::to_string_lossy),
                        request.data.display()
                    ));
                    own
                }
                Some(asked) => asked,
                None => own,
            };
            let starts_anew = other.is_some() && !earlier.checkpoint;
            if starts_anew {
                warnings.push(format!(
                    "{} has learned nothing yet: it starts from {}, with the settings of these weights",
                    request.data.display(),
                    model.map_or("random weights".into(), Path::to_string_lossy)
                ));
            }
            let settings = match model {
                _ if request.preset.is_some() || request.config.is_some() => anew(request, model, card_of)?,
                Some(model) if starts_anew => {
                    let mut settings = remembered.settings.clone();
                    settings.start_from(&card_of(model)?);
                    settings
                }
                None if starts_anew => anew(request, None, card_of)?,
                _ => remembered.settings.clone(),
            };
            (settings, model.map(Path::to_path_buf))
        }
    };
    request.changes.apply(&mut settings);
    settings.validate()?;
    if let Some(remembered) = earlier.remembered.as_ref().filter(|_| earlier.checkpoint) {
        let (own, asked) = (remembered.settings.objective, settings.objective);
        if own != asked {
            return Err(Error::input(format!(
                "{} has learned by the objective {own}, and {asked} cannot go on from there: leave --objective out, or record into \
                 another folder with --data",
                request.data.display()
            )));
        }
    }
    Ok((settings, model))
}

/// The settings of the preset and the file for these weights.
fn anew(
    request: &Request,
    model: Option<&Path>,
    card_of: impl FnOnce(&Path) -> Result<ModelCard>,
) -> Result<Settings> {
    let card = model.map(card_of).transpose()?;
    Settings::for_device(request.preset, request.config.as_deref(), card.as_ref())
}

/// What a new recording starts with if no weights are named: the built-in ones, or random ones if another preset or another network
/// is asked for.
fn usual(request: &Request) -> Result<(Settings, Option<PathBuf>)> {
    let (preset, file) = (request.preset, request.config.as_deref());
    let card = ModelCard::built_in()?;
    let settings = Settings::for_device(preset, file, Some(&card))?;
    let other = settings.preset != Preset::default() || check_network(&card, &settings, BUILT_IN).is_err();
    match other {
        true => Ok((Settings::for_device(preset, file, None)?, None)),
        false => Ok((settings, Some(BUILT_IN.into()))),
    }
}

/// The file of weights that `--model` names; none for random ones.
fn file_of(asked: &Path) -> Option<&Path> {
    Some(asked).filter(|asked| *asked != Path::new(RANDOM))
}

/// The source, if it is known and may go on in this folder.
fn camera(request: &Request, remembered: Option<&Remembered>) -> Result<String> {
    let camera = match (&request.camera, remembered) {
        (Some(camera), _) => Some(camera::lasting(camera)),
        (None, Some(remembered)) => Some(remembered.own_camera(&request.data)?),
        (None, None) => None,
    };
    if let Some(remembered) = remembered.filter(|_| !request.continue_with) {
        remembered.check_same(&request.data, camera.as_deref(), request.name.as_deref())?;
    }
    camera.ok_or_else(|| {
        Error::input(format!(
            "{} holds no recording to go on with: say where frames come from with --camera",
            request.data.display()
        ))
    })
}

impl Changes {
    fn apply(&self, settings: &mut Settings) {
        if let Some(window) = self.window {
            settings.window = window;
            settings.stride = settings.stride.min(window);
        }
        settings.stride = self.stride.unwrap_or(settings.stride);
        settings.learning_rate = self.learning_rate.unwrap_or(settings.learning_rate);
        settings.variant = self.variant.unwrap_or(settings.variant);
        settings.seed = self.seed.unwrap_or(settings.seed);
        if let Some(objective) = self.objective {
            settings.learn_by(objective);
        }
        match self.views {
            Some(ViewChoice::Temporal) => {
                settings.views = Pairing::NextFrame;
                settings.augmentation = Augmentation::Mild;
            }
            Some(ViewChoice::Augmented) => {
                let paper = settings.preset.settings();
                settings.views = paper.views;
                settings.augmentation = paper.augmentation;
            }
            None => {}
        }
    }
}

/// Whether two starts are the same: both random, or from one file. Of a file that is gone the path decides.
fn is_same(a: Option<&Path>, b: Option<&Path>) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    match (a, b) {
        (Some(a), Some(b)) => a == b || matches!((real(a), real(b)), (Ok(a), Ok(b)) if a == b),
        (a, b) => a == b,
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "oupn-edge".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::NormMode;

    fn request() -> Request {
        Request {
            data: "data".into(),
            camera: None,
            format: None,
            resolution: None,
            rate: None,
            start_time: None,
            realtime: None,
            continue_with: false,
            name: None,
            period: None,
            checkpoint_every: Duration::from_secs(300),
            reserve_bytes: 0,
            time: None,
            frames: None,
            model: None,
            preset: None,
            config: None,
            changes: Changes::default(),
            calibrate: None,
            keep_thumbnails: false,
            keep_window: false,
            device: DeviceChoice::Cpu,
            threads: 0,
            memory_budget: 1 << 30,
        }
    }

    fn no_card(path: &Path) -> Result<ModelCard> {
        Err(Error::input(format!("{} was to be read", path.display())))
    }

    /// Cards of networks that differ in padding and epsilon.
    fn cards() -> [ModelCard; 2] {
        let known = ModelCard::known().unwrap();
        let first = known[0].clone();
        let other = known.into_iter().find(|card| card.padding != first.padding).unwrap();
        [first, other]
    }

    /// What a folder holds after a start with this plan.
    fn after(plan: &RunPlan, checkpoint: bool) -> Earlier {
        Earlier { remembered: Some(Remembered::of(plan)), checkpoint }
    }

    fn resolved(request: Request, earlier: &Earlier, card: &ModelCard) -> Resolved {
        RunPlan::resolve(request, earlier, |_| Ok(card.clone())).unwrap()
    }

    fn with_model(model: &str) -> Request {
        Request { camera: Some("rooms".into()), model: Some(model.into()), ..request() }
    }

    #[test]
    fn a_new_folder_needs_a_source_and_gets_the_settings_of_a_device() {
        let error = RunPlan::resolve(request(), &Earlier::default(), no_card).unwrap_err();
        assert!(error.to_string().contains("--camera"), "{error}");
        let asked = Request { camera: Some("rooms".into()), ..request() };
        let plan = RunPlan::resolve(asked, &Earlier::default(), no_card).unwrap().plan;
        let card = ModelCard::built_in().unwrap();
        assert_eq!(plan.settings, Settings::for_device(None, None, Some(&card)).unwrap());
        assert_eq!(plan.model.as_deref(), Some(Path::new(BUILT_IN)));
        assert_eq!((plan.period, plan.calibrate, plan.realtime), (PERIOD, true, true));

        // The same folder again, without a word: all as before, and no file of weights is looked for.
        let again = RunPlan::resolve(request(), &after(&plan, false), no_card).unwrap().plan;
        assert_eq!(Remembered::of(&again), Remembered::of(&plan));
    }

    #[test]
    fn single_settings_come_last() {
        let changes = Changes {
            window: Some(10),
            seed: Some(7),
            views: Some(ViewChoice::Temporal),
            ..Changes::default()
        };
        let asked = Request { camera: Some("rooms".into()), changes, ..request() };
        let settings = RunPlan::resolve(asked, &Earlier::default(), no_card).unwrap().plan.settings;
        assert_eq!((settings.window, settings.stride, settings.seed), (10, 10, 7));
        assert_eq!(settings.views, Pairing::NextFrame);
        let changes = Changes { stride: Some(76), ..Changes::default() };
        let asked = Request { camera: Some("rooms".into()), changes, ..request() };
        assert!(RunPlan::resolve(asked, &Earlier::default(), no_card).is_err(), "longer than the window");
    }

    /// The built-in weights are for who asks for nothing else.
    #[test]
    fn another_preset_or_network_starts_from_random_weights() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.toml");
        let plan = |preset: Option<Preset>, keys: &str, model: Option<&str>| {
            std::fs::write(&file, keys).unwrap();
            let asked = Request {
                camera: Some("rooms".into()),
                preset,
                config: Some(file.clone()),
                model: model.map(PathBuf::from),
                ..request()
            };
            RunPlan::resolve(asked, &Earlier::default(), no_card).unwrap().plan
        };
        let built_in = Some(PathBuf::from(BUILT_IN));
        for keys in ["", "preset = \"saycam\"", "stride = 5", "image_height = 96\nimage_width = 96"] {
            assert_eq!(plan(None, keys, None).model, built_in, "{keys}");
            assert_eq!(plan(None, keys, Some(RANDOM)).model, None, "{keys}");
        }
        assert_eq!(plan(Some(Preset::Saycam), "", None).model, built_in);
        for keys in
            ["encoder = \"conv-4\"", "encoder_width = 1.0", "preset = \"rooms\"", "padding = \"symmetric\""]
        {
            let random = plan(None, keys, None);
            assert_eq!(random.model, None, "{keys}");
            assert_eq!(random.settings, Settings::for_device(None, Some(&file), None).unwrap());
        }
        assert_eq!(plan(Some(Preset::Omniglot), "", None).model, None);
    }

    /// Nothing was learned: random weights may still be asked for.
    #[test]
    fn random_weights_can_be_asked_for_until_something_is_learned() {
        let asked = Request { camera: Some("rooms".into()), ..request() };
        let plan = RunPlan::resolve(asked, &Earlier::default(), no_card).unwrap().plan;
        let random = Request { model: Some(RANDOM.into()), ..request() };
        let Resolved { plan: other, warnings } =
            RunPlan::resolve(random.clone(), &after(&plan, false), no_card).unwrap();
        assert_eq!((other.model.as_ref(), warnings.len()), (None, 1), "{warnings:?}");
        assert_eq!(other.settings, Settings::for_device(None, None, None).unwrap());
        let Resolved { plan: same, warnings } =
            RunPlan::resolve(random, &after(&plan, true), no_card).unwrap();
        assert_eq!((&same.model, &same.settings), (&plan.model, &plan.settings));
        assert!(warnings[0].contains("--model random is not used"), "{warnings:?}");
    }

    #[test]
    fn an_objective_stays_once_something_was_learned() {
        let by = |objective| Request {
            camera: Some("rooms".into()),
            changes: Changes { objective: Some(objective), ..Changes::default() },
            ..request()
        };
        let plan = RunPlan::resolve(by(Method::SimClr), &Earlier::default(), no_card).unwrap().plan;
        assert_eq!(plan.settings.objective, Method::SimClr);
        let again = RunPlan::resolve(request(), &after(&plan, true), no_card).unwrap().plan;
        assert_eq!(again.settings.objective, Method::SimClr, "it is remembered");
        let other = RunPlan::resolve(by(Method::Oupn), &after(&plan, false), no_card).unwrap().plan;
        assert_eq!(other.settings.objective, Method::Oupn, "nothing was learned yet");
        let unmeasured = Request { calibrate: Some(false), ..by(Method::SimSiam) };
        let error = RunPlan::resolve(unmeasured, &Earlier::default(), no_card).unwrap_err().to_string();
        assert!(error.contains("simsiam learns no threshold"), "{error}");
        let error = RunPlan::resolve(by(Method::Oupn), &after(&plan, true), no_card).unwrap_err().to_string();
        assert!(error.contains("learned by the objective simclr, and oupn cannot"), "{error}");
    }

    #[test]
    fn a_model_brings_its_network_to_a_folder_that_has_learned_nothing() {
        let [first, other] = cards();
        let cold = Request { camera: Some("rooms".into()), model: Some(RANDOM.into()), ..request() };
        let cold = RunPlan::resolve(cold, &Earlier::default(), no_card).unwrap().plan;
        let warm = resolved(with_model("/first"), &Earlier::default(), &first).plan;
        for before in [&cold, &warm] {
            let Resolved { plan, warnings } = resolved(with_model("/other"), &after(before, false), &other);
            let settings = &plan.settings;
            assert_eq!((settings.padding, settings.architecture()), (other.padding, other.encoder));
            assert_eq!(settings.norm_epsilon, f64::from(other.bn_epsilon));
            assert_eq!((settings.learning_rate, settings.norm_statistics), (1e-5, NormMode::Running));
            assert_eq!(plan.model.as_deref(), Some(Path::new("/other")));
            assert!(warnings.len() == 1 && warnings[0].contains("starts from /other"), "{warnings:?}");
        }
        // The same model once more changes nothing, and is not even read.
        let again = RunPlan::resolve(with_model("/first"), &after(&warm, false), no_card).unwrap();
        assert_eq!((&again.plan.settings, again.warnings.len()), (&warm.settings, 0));
    }

    #[test]
    fn what_was_learned_goes_on_whatever_the_model() {
        let [first, other] = cards();
        let plan = resolved(with_model("/first"), &Earlier::default(), &first).plan;
        let earlier = after(&plan, true);
        let same = RunPlan::resolve(with_model("/first"), &earlier, no_card).unwrap();
        assert!(same.warnings.is_empty());
        let asked = RunPlan::resolve(with_model("/other"), &earlier, no_card).unwrap();
        assert_eq!(asked.plan.model, plan.model, "and a forget goes back to where it came from");
        assert_eq!(asked.plan.settings, plan.settings);
        let [warning] = &asked.warnings[..] else { panic!("{:?}", asked.warnings) };
        assert!(warning.contains("/other is not used") && warning.contains("--data"), "{warning}");
        // With a preset, settings are made anew: for the weights that go on, not for those that were named.
        let anew = Request { preset: Some(Preset::default()), ..with_model("/other") };
        let read = |path: &Path| {
            assert_eq!(path, Path::new("/first"));
            Ok(first.clone())
        };
        let anew = RunPlan::resolve(anew, &earlier, read).unwrap().plan;
        assert_eq!((anew.settings.padding, other.padding != first.padding), (first.padding, true));
    }

    #[test]
    fn another_source_or_name_needs_a_word() {
        let asked = Request { camera: Some("rooms".into()), name: Some("p07".into()), ..request() };
        let plan = RunPlan::resolve(asked, &Earlier::default(), no_card).unwrap().plan;
        let earlier = after(&plan, true);
        for other in [
            Request { camera: Some("rooms:5".into()), ..request() },
            Request { name: Some("p08".into()), ..request() },
        ] {
            let error = RunPlan::resolve(other.clone(), &earlier, no_card).unwrap_err();
            assert!(error.to_string().contains("--continue-with"), "{error}");
            let allowed = Request { continue_with: true, ..other };
            RunPlan::resolve(allowed, &earlier, no_card).unwrap();
        }
    }
}
