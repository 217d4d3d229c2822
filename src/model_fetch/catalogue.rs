//! What can be fetched: published MobileNet-V2 weights whose network the encoder computes exactly, and where they are.
//!
//! What the weights are is in their model card (`models/`); here is only what a download needs. A base address can be replaced, by
//! `--from` or for the hub by `HF_ENDPOINT`, as the hub's own tools have it: for a mirror, or a server without a way out.

use super::digest::Expected;
use crate::encoder::ModelCard;
use crate::{Error, Result};

/// Where torchvision's weights are.
const TORCHVISION: &str = "https://download.pytorch.org/models";
/// Where timm's weights are.
const HUB: &str = "https://huggingface.co";
/// The variable that names another hub.
pub const HUB_VARIABLE: &str = "HF_ENDPOINT";
/// The state of a repository that is taken if nothing else is said.
const REVISION: &str = "main";

/// One published model.
#[derive(Debug)]
pub struct Entry {
    /// Its name, which is that of its model card.
    pub name: &'static str,
    /// Its publisher and file.
    published: Published,
    /// About how many bytes the file has.
    pub bytes: u64,
}

#[derive(Debug)]
enum Published {
    /// A file of torchvision's: its name ends in the first eight digits of its SHA-256.
    Torchvision { file: &'static str, digits: &'static str },
    /// `model.safetensors` of a repository of timm's on the hub, which has the model's name. The hub says its SHA-256.
    Timm,
}

/// All of them.
pub static ENTRIES: [Entry; 5] = [
    Entry {
        name: "mobilenet_v2_torchvision_v1",
        published: Published::Torchvision { file: "mobilenet_v2-b0353104.pth", digits: "b0353104" },
        bytes: 14_200_000,
    },
    Entry {
        name: "mobilenet_v2_torchvision_v2",
        published: Published::Torchvision { file: "mobilenet_v2-7ebf99e0.pth", digits: "7ebf99e0" },
        bytes: 14_300_000,
    },
    Entry { name: "mobilenetv2_050.lamb_in1k", published: Published::Timm, bytes: 8_000_000 },
    Entry { name: "mobilenetv2_100.ra_in1k", published: Published::Timm, bytes: 14_200_000 },
    Entry { name: "mobilenetv2_140.ra_in1k", published: Published::Timm, bytes: 24_700_000 },
];

/// Published under similar names, but of networks with more blocks, which the encoder does not compute.
pub const TOO_DEEP: [&str; 2] = ["mobilenetv2_110d.ra_in1k", "mobilenetv2_120d.ra_in1k"];

/// Cards whose weights are kept in `models/` of this project's source.
pub const SHIPPED: [&str; 2] = ["conv4_omniglot", "conv4_64_omniglot"];

/// The model of this name; what follows timm's point may be left out.
///
/// # Errors
/// If there is none, with the names that there are.
pub fn find(name: &str) -> Result<&'static Entry> {
    if let Some(entry) = known(name) {
        return Ok(entry);
    }
    let names = ENTRIES.each_ref().map(|entry| entry.name).join(", ");
    if TOO_DEEP.iter().any(|deep| is_called(deep, name)) {
        return Err(Error::input(format!(
            "{name} has more blocks than the MobileNet-V2 that this program computes; choose one of {names}"
        )));
    }
    Err(Error::input(format!("there is no model {name} to fetch; choose one of {names}")))
}

/// The model of this name, if there is one.
pub(super) fn known(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| is_called(entry.name, name))
}

fn is_called(whole: &str, name: &str) -> bool {
    whole == name || whole.split_once('.').is_some_and(|(short, _)| short == name)
}

impl Entry {
    /// What the weights are.
    ///
    /// # Errors
    /// Never, unless the program was built with another set of cards.
    pub fn card(&self) -> Result<ModelCard> {
        let card = ModelCard::known()?.into_iter().find(|card| card.name == self.name);
        card.ok_or_else(|| Error::input(format!("{} has no model card in this program", self.name)))
    }

    /// The address of the file. `from` takes the place of the publisher's server, and `revision` that of the hub's `main`.
    ///
    /// # Errors
    /// If what was given is no address.
    pub fn url(&self, from: Option<&str>, revision: Option<&str>) -> Result<String> {
        let named = std::env::var(HUB_VARIABLE).ok().filter(|named| !named.is_empty());
        let official = match self.published {
            Published::Torchvision { .. } => TORCHVISION,
            Published::Timm => named.as_deref().unwrap_or(HUB),
        };
        let base = from.unwrap_or(official).trim_end_matches('/');
        let server = base.strip_prefix("https://").or_else(|| base.strip_prefix("http://"));
        // A password in an address would end up in cards and messages.
        if server.is_none_or(|server| server.is_empty() || server.contains(['@', '?', '#', ' '])) {
            return Err(Error::input(format!(
                "{base} is no server's address; --from and {HUB_VARIABLE} take one such as {HUB}"
            )));
        }
        match (&self.published, revision) {
            (Published::Torchvision { .. }, Some(revision)) => Err(Error::input(format!(
                "--revision {revision}: {} is a file of torchvision's, which has no revisions",
                self.name
            ))),
            (Published::Torchvision { file, .. }, None) => Ok(format!("{base}/{file}")),
            (Published::Timm, revision) => {
                let revision = revision.unwrap_or(REVISION);
                let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
                if revision.is_empty() || !revision.chars().all(plain) {
                    return Err(Error::input(format!(
                        "--revision {revision}: expected a branch, a tag or a commit"
                    )));
                }
                Ok(format!("{base}/timm/{}/resolve/{revision}/model.safetensors", self.name))
            }
        }
    }

    /// What the file's name says of its SHA-256.
    pub(super) fn expected(&self) -> Option<Expected> {
        match self.published {
            Published::Torchvision { digits, .. } => Some(Expected::beginning(digits)),
            Published::Timm => None,
        }
    }

    /// How the downloaded file's name must end for it to be read as what it is.
    pub(super) fn extension(&self) -> &'static str {
        match self.published {
            Published::Torchvision { .. } => "pth",
            Published::Timm => "safetensors",
        }
    }

    /// The most bytes that a server may send: what is known of the size is not exact.
    pub(super) fn ceiling(&self) -> u64 {
        2 * self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_its_card_and_its_size() {
        for entry in &ENTRIES {
            let card = entry.card().unwrap();
            let plan = card.plan(224, 224, 0.1).unwrap();
            let numbers = plan.zero_parameters().values.len() + plan.fresh_statistics().values.len();
            // The published files also hold the classifier of 1000 classes.
            let bytes = 4 * (numbers + 1000 * (plan.features + 1)) as u64;
            assert!(entry.bytes.abs_diff(bytes) < entry.bytes / 20, "{}: {bytes}", entry.name);
            if let Published::Torchvision { file, digits } = entry.published {
                assert!(
                    card.files.iter().any(|known| known == file) && file.ends_with(&format!("-{digits}.pth"))
                );
                assert!(card.source.ends_with(&entry.url(None, None).unwrap()), "{}", card.source);
            }
        }
    }

    #[test]
    fn what_is_said_to_be_shipped_is() {
        for name in SHIPPED {
            let file = format!("{}/models/{name}.safetensors", env!("CARGO_MANIFEST_DIR"));
            assert!(std::path::Path::new(&file).is_file(), "{file}");
        }
    }

    #[test]
    fn names_are_found_with_and_without_their_tag() {
        for name in ["mobilenetv2_100.ra_in1k", "mobilenetv2_100"] {
            assert_eq!(find(name).unwrap().name, "mobilenetv2_100.ra_in1k");
        }
        let message = find("mobilenetv2_110d").unwrap_err().to_string();
        assert!(message.contains("more blocks") && message.contains("mobilenetv2_140.ra_in1k"), "{message}");
        let message = find("resnet50").unwrap_err().to_string();
        assert!(
            message.contains("no model resnet50") && message.contains("mobilenetv2_100.ra_in1k"),
            "{message}"
        );
    }

    #[test]
    fn addresses_are_the_publishers_unless_another_is_given() {
        let (torchvision, timm) = (&ENTRIES[0], find("mobilenetv2_100").unwrap());
        let url =
            |entry: &Entry, from, revision| entry.url(from, revision).map_err(|error| error.to_string());
        assert_eq!(
            url(torchvision, None, None).unwrap(),
            "https://download.pytorch.org/models/mobilenet_v2-b0353104.pth"
        );
        let mirror = Some("http://10.0.0.1:80/files/");
        assert_eq!(
            url(torchvision, mirror, None).unwrap(),
            "http://10.0.0.1:80/files/mobilenet_v2-b0353104.pth"
        );
        assert_eq!(
            url(timm, mirror, Some("v1.0")).unwrap(),
            "http://10.0.0.1:80/files/timm/mobilenetv2_100.ra_in1k/resolve/v1.0/model.safetensors"
        );
        assert!(url(timm, Some("files"), None).unwrap_err().contains("no server's address"));
        assert!(url(timm, mirror, Some("../x")).unwrap_err().contains("--revision"));
        assert!(url(torchvision, None, Some("v1")).unwrap_err().contains("no revisions"));
    }
}
