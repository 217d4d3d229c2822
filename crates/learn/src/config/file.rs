//! Settings in TOML: read over a preset, written whole.

use std::fmt::Write;
use std::io::Read;
use std::path::Path;

use toml::de::DeTable;
use toml::{Table, Value};

use super::presets::Preset;
use super::settings::{KEYS, Key, Settings};
use crate::objective::Method;
use crate::{Choice, Error, Result};

/// No settings file comes near this.
const LARGEST: u64 = 1 << 20;

impl Settings {
    /// The settings of a preset and a settings file, either of which may be left out. Keys that the file does not hold
    /// keep the value of the preset: the one given, else the one that the file names, else `saycam`.
    ///
    /// # Errors
    /// As [`Settings::from_toml`], and if the file cannot be read or names another preset than the one given.
    pub fn load(preset: Option<Preset>, file: Option<&Path>) -> Result<Self> {
        Self::load_adjusted(preset, file, |_| {})
    }

    /// As [`Settings::load`], with the preset adjusted before the file has its say.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub fn load_adjusted(
        preset: Option<Preset>,
        file: Option<&Path>,
        adjust: impl FnOnce(&mut Self),
    ) -> Result<Self> {
        let Some(path) = file else {
            let mut settings = preset.unwrap_or_default().settings();
            adjust(&mut settings);
            return Ok(settings);
        };
        let text = read_text(path)?;
        Self::parse(&text, &path.display().to_string(), preset, adjust)
    }

    /// Reads the text of a settings file; `name` stands for the file in messages.
    ///
    /// # Errors
    /// In one sentence that begins with the file's name and the line: TOML that cannot be read, an unknown key with the
    /// nearest valid one, a value out of range with the range, values that contradict each other.
    pub fn from_toml(text: &str, name: &str) -> Result<Self> {
        Self::parse(text, name, None, |_| {})
    }

    fn parse(text: &str, name: &str, preset: Option<Preset>, adjust: impl FnOnce(&mut Self)) -> Result<Self> {
        let faulty = |error: &toml::de::Error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            Error::input(format!("{name}:{line}: {}", error.message().replace('\n', "; ")))
        };
        let lines = DeTable::parse(text).map_err(|error| faulty(&error))?;
        let given: Table = text.parse().map_err(|error| faulty(&error))?;
        // Says where a key stands in front of what is wrong with it.
        let at = |key: &str, fault: String| {
            let line = lines.get_ref().iter().find(|(name, _)| name.get_ref() == key);
            let line = line.map_or(1, |(key, _)| line_of(text, key.span().start));
            Error::input(format!("{name}:{line}: {fault}"))
        };

        let named = match given.get("preset") {
            None => None,
            Some(value) => Some(value.as_str().and_then(Preset::named).ok_or_else(|| {
                let names = Preset::ALL.map(|preset| format!("\"{preset}\"")).join(", ");
                at("preset", format!("preset = {value} is not valid: it must be one of {names}"))
            })?),
        };
        if let (Some(named), Some(preset)) = (named, preset)
            && named != preset
        {
            return Err(at(
                "preset",
                format!("preset = \"{named}\" contradicts the preset asked for, {preset}"),
            ));
        }
        let mut base = preset.or(named).unwrap_or_default().settings();
        adjust(&mut base);
        // An objective brings its views, over which the file's own have their say.
        if let Some(objective) = given.get("objective").and_then(Value::as_str).and_then(Method::named) {
            base.learn_by(objective);
        }
        let mut table = base.table();
        for (key, value) in given.into_iter().filter(|(key, _)| key != "preset") {
            accept(&key, &value).map_err(|error| at(&key, error.to_string()))?;
            table.insert(key, value);
        }
        let settings: Self = table.try_into().map_err(|error| faulty(&error))?;
        settings.check_together().map_err(|error| Error::input(format!("{name}: {error}")))?;
        Ok(settings)
    }

    /// The settings as a file that reads back as exactly these: every key below its meaning, with the preset's value
    /// beside it where that is another one.
    pub fn to_toml(&self) -> String {
        let (table, preset) = (self.table(), self.preset.settings().table());
        let mut text = format!("preset = \"{}\"\n", self.preset);
        for Key { name, meaning, limits } in KEYS {
            let (Some(value), Some(usual)) = (table.get(*name), preset.get(*name)) else { continue };
            // Writing to a string cannot fail.
            let _ = writeln!(text);
            for line in meaning.lines() {
                let _ = writeln!(text, "# {}", line.trim());
            }
            let _ = writeln!(text, "# {limits}");
            let _ = match value == usual {
                true => writeln!(text, "{name} = {value}"),
                false => writeln!(text, "{name} = {value} # preset: {usual}"),
            };
        }
        text
    }

    /// The keys whose values differ from the preset's, with both: this one, the preset's.
    pub fn differences(&self) -> Vec<(&'static str, String, String)> {
        let (table, preset) = (self.table(), self.preset.settings().table());
        let differing = KEYS.iter().filter(|key| table.get(key.name) != preset.get(key.name));
        let text = |value: Option<&Value>| value.map(ToString::to_string).unwrap_or_default();
        differing.map(|key| (key.name, text(table.get(key.name)), text(preset.get(key.name)))).collect()
    }

    /// Refuses settings made in code that no file could give.
    ///
    /// # Errors
    /// As [`Settings::from_toml`], without a line.
    pub fn validate(&self) -> Result<()> {
        let table = self.table();
        if table.is_empty() {
            return Err(Error::input("a setting is larger than any settings file can hold"));
        }
        for (key, value) in table.iter().filter(|(key, _)| *key != "preset") {
            accept(key, value)?;
        }
        self.check_together()
    }

    /// The settings of a table that another version of this program wrote: keys that it did not know have the preset's value, and
    /// keys that are not known here are ignored.
    ///
    /// # Errors
    /// If a value is of the wrong kind. Ranges are checked by [`Settings::validate`].
    pub fn of_table(given: Table) -> std::result::Result<Self, toml::de::Error> {
        let preset = given.get("preset").and_then(Value::as_str).and_then(Preset::named);
        let mut table = preset.unwrap_or_default().settings().table();
        table.extend(given);
        table.try_into()
    }

    /// All keys with their values; nothing if a whole number is beyond TOML's 63 bits.
    fn table(&self) -> Table {
        Table::try_from(self).unwrap_or_default()
    }
}

/// Refuses an unknown key and a value that is not valid for it.
fn accept(key: &str, value: &Value) -> Result<()> {
    let Some(known) = KEYS.iter().find(|known| known.name == key) else {
        let names = KEYS.iter().map(|known| known.name).chain(["preset"]);
        let nearest = names.max_by(|left, right| {
            let likeness = |name| strsim::normalized_damerau_levenshtein(key, name);
            likeness(left).total_cmp(&likeness(right))
        });
        return Err(Error::input(format!(
            "unknown key `{key}`: did you mean `{}`?",
            nearest.unwrap_or_default()
        )));
    };
    if known.limits.admit(value) {
        return Ok(());
    }
    let shown = if value.is_table() { "a table".to_owned() } else { value.to_string() };
    Err(Error::input(format!("{key} = {shown} is not valid: it must be {}", known.limits)))
}

/// The text of a settings file. Something else, such as a picture, is the caller's slip and not the system's.
fn read_text(path: &Path) -> Result<String> {
    let fault =
        |what: &str| Error::input(format!("{}: {what}; a settings file is text (TOML)", path.display()));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| {
        Error::io(path, error).expecting("a settings file; `oupn-edge config show` prints one to start from")
    })?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(fault("this is a folder"));
    }
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| Error::io(path, error))?;
    if bytes.len() as u64 > LARGEST {
        return Err(fault("too large for a settings file"));
    }
    String::from_utf8(bytes).map_err(|_| fault("this is no text"))
}

/// The line of a byte, counted from 1.
fn line_of(text: &str, byte: usize) -> usize {
    1 + text.as_bytes().iter().take(byte).filter(|&&b| b == b'\n').count()
}

/// A pseudo-label as the word "one_hot" or as its ratio.
pub(super) mod pseudo_label {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use crate::memory::PseudoLabel;

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Form {
        Ratio(f64),
        Word(String),
    }

    pub(in crate::config) fn serialize<S: Serializer>(
        label: &PseudoLabel,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match *label {
            PseudoLabel::OneHot => Form::Word("one_hot".to_owned()),
            PseudoLabel::Soft { ratio } => Form::Ratio(ratio),
        }
        .serialize(serializer)
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PseudoLabel, D::Error> {
        match Form::deserialize(deserializer)? {
            Form::Ratio(ratio) => Ok(PseudoLabel::Soft { ratio }),
            Form::Word(word) if word == "one_hot" => Ok(PseudoLabel::OneHot),
            Form::Word(word) => {
                Err(D::Error::custom(format!("pseudo_label = \"{word}\" is not \"one_hot\"")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::memory::PseudoLabel;
    use crate::views::Pairing;

    fn refusal(text: &str) -> String {
        let error = Settings::from_toml(text, "f.toml").unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let message = error.to_string();
        assert!(!message.contains('\n'), "one line: {message}");
        message
    }

    #[test]
    fn a_file_changes_what_it_names_and_nothing_else() {
        let text = "# mine\npreset = \"rooms\"\nslots = 99\ndecay = 1\npseudo_label = \"one_hot\"\nrate_drops = [7, 9]\n";
        let settings = Settings::from_toml(text, "f").unwrap();
        let mut expected = Preset::Rooms.settings();
        expected.slots = 99;
        expected.decay = 1.0;
        expected.pseudo_label = PseudoLabel::OneHot;
        expected.rate_drops = vec![7, 9];
        assert_eq!(settings, expected);
        assert_eq!(
            settings.differences().iter().map(|difference| difference.0).collect::<Vec<_>>(),
            ["slots", "decay", "pseudo_label", "rate_drops"]
        );
        assert_eq!(Settings::from_toml("", "f").unwrap(), Preset::Saycam.settings());
    }

    #[test]
    fn unknown_keys_are_refused_with_the_nearest_one() {
        for (key, nearest) in [
            ("slot", "slots"),
            ("Decay", "decay"),
            ("beta_lr", "beta"),
            ("beta_rate", "beta_learning_rate"),
            ("pseudolabel", "pseudo_label"),
            ("presets", "preset"),
            ("learning_rates", "learning_rate"),
        ] {
            let message = refusal(&format!("preset = \"rooms\"\n\n{key} = 1\n"));
            assert_eq!(message, format!("f.toml:3: unknown key `{key}`: did you mean `{nearest}`?"));
        }
        assert!(refusal("[memory]\nslots = 5\n").starts_with("f.toml:1: unknown key `memory`"));
    }

    #[test]
    fn values_out_of_range_are_refused_with_the_range() {
        for (line, message) in [
            ("slots = 0", "slots = 0 is not valid: it must be a whole number in 1..=1024"),
            ("slots = 1025", "slots = 1025 is not valid: it must be a whole number in 1..=1024"),
            ("slots = 7.5", "slots = 7.5 is not valid: it must be a whole number in 1..=1024"),
            ("decay = 0", "decay = 0 is not valid: it must be a number in (0, 1]"),
            ("decay = 1.001", "decay = 1.001 is not valid: it must be a number in (0, 1]"),
            ("decay = nan", "decay = nan is not valid: it must be a number in (0, 1]"),
            ("threshold = 1.0", "threshold = 1.0 is not valid: it must be a number in (0, 1)"),
            ("beta = inf", "beta = inf is not valid: it must be a number in [-1000, 1000]"),
            (
                "pseudo_label = 0.0",
                "pseudo_label = 0.0 is not valid: it must be \"one_hot\" or a number in (0, 100]",
            ),
            (
                "pseudo_label = \"hot\"",
                "pseudo_label = \"hot\" is not valid: it must be \"one_hot\" or a number in (0, 100]",
            ),
            (
                "variant = \"both\"",
                "variant = \"both\" is not valid: it must be one of \"reference\", \"paper\"",
            ),
            ("symmetric = 1", "symmetric = 1 is not valid: it must be true or false"),
            (
                "rate_drops = [2, 2]",
                "rate_drops = [2, 2] is not valid: it must be rising whole numbers in 1..=1000000000, as [1, 2, …]",
            ),
            (
                "encoder_pools = [2, 2]",
                "encoder_pools = [2, 2] is not valid: it must be 4 whole numbers in 1..=8, as [1, 2, …]",
            ),
            ("slots.a = 1", "slots = a table is not valid: it must be a whole number in 1..=1024"),
            (
                "preset = \"romms\"",
                "preset = \"romms\" is not valid: it must be one of \"saycam\", \"rooms\", \"omniglot\", \"imagenet\"",
            ),
        ] {
            assert_eq!(refusal(&format!("# first\n{line}\n")), format!("f.toml:2: {message}"));
        }
    }

    /// The methods that the paper compares with see two augmented views, unless the file says otherwise.
    #[test]
    fn an_objective_brings_its_views() {
        let views = |text: &str| Settings::from_toml(text, "f").unwrap().views;
        assert_eq!(views("preset = \"omniglot\"\n"), Pairing::CleanAndAugmented);
        assert_eq!(views("preset = \"omniglot\"\nobjective = \"oupn\"\n"), Pairing::CleanAndAugmented);
        assert_eq!(views("preset = \"omniglot\"\nobjective = \"simclr\"\n"), Pairing::TwoAugmented);
        let own = "preset = \"omniglot\"\nobjective = \"swav\"\nviews = \"clean_and_augmented\"\n";
        assert_eq!(views(own), Pairing::CleanAndAugmented);
        assert!(
            refusal("objective = \"byol\"")
                .ends_with("it must be one of \"oupn\", \"simclr\", \"swav\", \"swav-queue\", \"simsiam\"")
        );
        let two = "preset = \"omniglot\"\nobjective = \"simsiam\"\nsecond_views = 2\n";
        assert!(refusal(two).contains("compares two views"));
    }

    #[test]
    fn contradictions_and_broken_files_are_refused() {
        assert!(refusal("stride = 76").contains("stride = 76 is larger than window = 75"));
        assert!(refusal("second_views = 2").contains("does not go with symmetric = true"));
        assert!(refusal("image_channels = 1").contains("reads 3"));
        assert!(refusal("preset = \"omniglot\"\naugmentation = \"mild\"").contains("changes colours"));
        assert!(refusal("augmentation = \"rooms\"").contains("mask"));
        assert!(refusal("window = 3\nslots = = 3\n").starts_with("f.toml:2: "));
        assert!(refusal("slots = 3\nslots = 4\n").starts_with("f.toml:2: duplicate key"));
        let missing = Settings::load(None, Some(Path::new("no/such.toml"))).unwrap_err();
        assert!(missing.to_string().starts_with("no/such.toml"));
    }

    #[test]
    fn settings_made_in_code_meet_the_same_rules() {
        let mut settings = Preset::Saycam.settings();
        settings.validate().unwrap();
        settings.decay = 2.0;
        assert!(settings.validate().unwrap_err().to_string().contains("(0, 1]"));
        settings.decay = 0.9;
        settings.stride = 80;
        assert!(settings.validate().unwrap_err().to_string().contains("stride"));
        settings.stride = 1;
        settings.seed = u64::MAX;
        assert!(settings.validate().unwrap_err().to_string().contains("larger than any"));
    }

    /// Each word of each listing must reach its enum and come back: the listings are written by hand.
    #[test]
    fn every_word_that_is_offered_can_be_read() {
        use super::super::limits::Limits;
        let mut words_seen = 0;
        for key in KEYS {
            let (Limits::OneOf(words) | Limits::OneOfOrReal(words, ..)) = key.limits else { continue };
            for &word in words {
                let mut table = Preset::Rooms.settings().table();
                table.insert(key.name.to_owned(), Value::from(word));
                let settings: Settings = table.try_into().unwrap();
                assert_eq!(
                    settings.table().get(key.name).and_then(Value::as_str),
                    Some(word),
                    "{}",
                    key.name
                );
                words_seen += 1;
            }
        }
        assert_eq!(words_seen, 38);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_exactly(
            preset in 0usize..4,
            seed in 0..i64::MAX as u64,
            decay in f64::MIN_POSITIVE..=1.0,
            beta in -1000.0f64..=1000.0,
            rate in 0.0f64..=1.0,
            ratio in proptest::option::of(1e-300f64..=100.0),
            drops in proptest::collection::btree_set(1u64..1_000_000_000, 0..4),
        ) {
            let mut settings = Preset::ALL[preset].settings();
            settings.seed = seed;
            settings.decay = decay;
            settings.beta = beta;
            settings.beta_learning_rate = rate;
            settings.pseudo_label = ratio.map_or(PseudoLabel::OneHot, |ratio| PseudoLabel::Soft { ratio });
            settings.rate_drops = drops.into_iter().collect();
            let text = settings.to_toml();
            let read = Settings::from_toml(&text, "f").unwrap();
            prop_assert_eq!(&read, &settings);
            prop_assert_eq!(read.to_toml(), text);
        }
    }
}
