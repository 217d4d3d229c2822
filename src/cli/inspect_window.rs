//! `oupn-edge inspect window`: one learning window on embeddings from a file, results to a file.
//!
//! # Input
//! A safetensors file. Metadata (JSON values): `variant` ("reference" or "paper"), `rho`, `alpha`, `mu`, `lambda_ent`,
//! `lambda_new`, `pseudo_label` ("one_hot" or the temperature ratio), `straight_through`, `kappa`, `symmetric`;
//! and `entropy_of` ("all" or "known"), which may be left out: "all".
//! Tensors: `in.h1`, `in.h2` \[T,D\]; `in.prototypes` \[K,D\], `in.counts` \[K\]; `in.inv_tau`, `in.beta`, `in.gamma` \[1\];
//! where sampling is on `in.noise_u1/u2` \[T\] and (`paper`) `in.noise_y1/y2` \[T,K\].
//!
//! # Output
//! `out.y_hat`, `out.u_hat`, `out.new`, `out.slot`, `out.prototypes`, `out.counts`, `out.l_self`, `out.l_ent`, `out.l_new`,
//! `out.mean_new`, `out.loss`, and the gradients of `out.loss`: `grad.h1`, `grad.h2`, `grad.inv_tau`, `grad.beta`,
//! `grad.gamma`. The metadata is copied.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use oupn_edge::memory::{Control, EntropyOf, Noise, Prototypes, PseudoLabel, Rules, Window, WindowInput};
use oupn_edge::tensors::{self, Tensor, TensorFile};
use oupn_edge::{Error, Result};

#[derive(Debug, Args)]
pub(super) struct WindowArgs {
    /// Embeddings, memory and settings: a safetensors file with `in.*` tensors
    #[arg(long, value_name = "FILE.safetensors")]
    tensors: PathBuf,
    /// Where to write the `out.*` and `grad.*` tensors
    #[arg(short, long = "output", alias = "out", value_name = "FILE.safetensors")]
    out: PathBuf,
    /// Print the summary as one line of JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &WindowArgs) -> Result<()> {
    let file = TensorFile::read(&args.tensors)
        .map_err(|error| error.expecting("a safetensors file with `in.*` tensors"))?;
    let rules = rules(&file)?;
    let (frames, dimension) = rank_two(&file, "in.h1")?;
    let (slots, _) = rank_two(&file, "in.prototypes")?;
    let scalar =
        |name: &str| Ok::<_, Error>(f64::from(file.finite(name, &[1])?.first().copied().unwrap_or_default()));
    let control =
        Control { inv_tau: scalar("in.inv_tau")?, beta: scalar("in.beta")?, gamma: scalar("in.gamma")? };
    let memory = Prototypes::from_parts(
        dimension,
        file.finite("in.prototypes", &[slots, dimension])?.to_vec(),
        file.finite("in.counts", &[slots])?.to_vec(),
    )
    .map_err(|error| file.fault(error))?;
    let mut window = Window::new(frames, slots, dimension).map_err(|error| file.fault(error))?;
    window
        .run(&WindowInput {
            embeddings: [
                file.finite("in.h1", &[frames, dimension])?,
                file.finite("in.h2", &[frames, dimension])?,
            ],
            memory: &memory,
            control,
            rules: &rules,
            kappa: file.setting("kappa")?,
            noise: noise(&file, &rules, frames, slots)?,
            stride: frames,
        })
        .map_err(|error| file.fault(error))?;
    tensors::write(&args.out, &results(&window, frames, slots, dimension), file.metadata().clone())?;
    summarise(args, &rules, &window, frames, slots, dimension)
}

fn rules(file: &TensorFile) -> Result<Rules> {
    let label: Value = file.setting("pseudo_label")?;
    let pseudo_label = match (label.as_str(), label.as_f64()) {
        (Some("one_hot"), _) => PseudoLabel::OneHot,
        (_, Some(ratio)) if ratio > 0.0 => PseudoLabel::Soft { ratio },
        _ => {
            return Err(file.fault(format!(
                "metadata entry `pseudo_label` = {label}; expected \"one_hot\" or a temperature ratio above 0"
            )));
        }
    };
    let ranged = |key: &str, low: f64, high: f64| {
        let value: f64 = file.setting(key)?;
        if (low..=high).contains(&value) {
            Ok(value)
        } else {
            Err(file.fault(format!("metadata entry `{key}` = {value}; expected {low} to {high}")))
        }
    };
    Ok(Rules {
        variant: file.setting("variant")?,
        decay: ranged("rho", 0.0, 1.0)?,
        threshold: ranged("alpha", 0.0, 1.0)?,
        prior_mean: ranged("mu", 0.0, 1.0)?,
        entropy_weight: file.setting("lambda_ent")?,
        entropy_of: match file.metadata().contains_key("entropy_of") {
            true => file.setting("entropy_of")?,
            false => EntropyOf::All,
        },
        creation_weight: file.setting("lambda_new")?,
        pseudo_label,
        straight_through: file.setting("straight_through")?,
        symmetric: file.setting("symmetric")?,
    })
}

fn noise<'a>(file: &'a TensorFile, rules: &Rules, frames: usize, slots: usize) -> Result<Option<Noise<'a>>> {
    if !rules.straight_through {
        return Ok(None);
    }
    let assignment = match rules.variant {
        oupn_edge::memory::Variant::Reference => [&[][..]; 2],
        oupn_edge::memory::Variant::Paper => {
            [file.finite("in.noise_y1", &[frames, slots])?, file.finite("in.noise_y2", &[frames, slots])?]
        }
    };
    let creation = [file.finite("in.noise_u1", &[frames])?, file.finite("in.noise_u2", &[frames])?];
    Ok(Some(Noise { creation, assignment }))
}

fn rank_two(file: &TensorFile, name: &str) -> Result<(usize, usize)> {
    match file.require(name)?.shape[..] {
        [rows, columns] if rows > 0 && columns > 0 => Ok((rows, columns)),
        ref shape => Err(file.fault(format!("tensor `{name}` has shape {shape:?}; expected two dimensions"))),
    }
}

fn results(window: &Window<f32>, frames: usize, slots: usize, dimension: usize) -> BTreeMap<String, Tensor> {
    let mut tensors = BTreeMap::new();
    let mut put = |name: &str, shape: &[usize], values: Vec<f32>| {
        tensors.insert(name.to_owned(), Tensor { shape: shape.to_vec(), values });
    };
    let outcomes = window.outcomes();
    put(
        "out.y_hat",
        &[frames, slots],
        (0..frames).flat_map(|frame| window.y_hat(frame)).map(|y| *y as f32).collect(),
    );
    put("out.u_hat", &[frames], outcomes.iter().map(|o| o.new_probability as f32).collect());
    put("out.new", &[frames], outcomes.iter().map(|o| f32::from(u8::from(o.created))).collect());
    put("out.slot", &[frames], outcomes.iter().map(|o| o.slot as f32).collect());
    put("out.prototypes", &[slots, dimension], window.memory_after().vectors().to_vec());
    put("out.counts", &[slots], window.memory_after().counts().to_vec());
    put("grad.h1", &[frames, dimension], window.d_embeddings(0).to_vec());
    put("grad.h2", &[frames, dimension], window.d_embeddings(1).to_vec());
    for (name, value) in scalars(window) {
        put(name, &[1], vec![value as f32]);
    }
    tensors
}

fn scalars(window: &Window<f32>) -> [(&'static str, f64); 8] {
    let (losses, d) = (window.losses(), window.d_control());
    [
        ("out.loss", losses.total),
        ("out.l_self", losses.self_supervised),
        ("out.l_ent", losses.entropy),
        ("out.l_new", losses.creation),
        ("out.mean_new", losses.mean_creation),
        ("grad.inv_tau", d.inv_tau),
        ("grad.beta", d.beta),
        ("grad.gamma", d.gamma),
    ]
}

fn summarise(
    args: &WindowArgs,
    rules: &Rules,
    window: &Window<f32>,
    frames: usize,
    slots: usize,
    dimension: usize,
) -> Result<()> {
    let created = window.outcomes().iter().filter(|outcome| outcome.created).count();
    let in_use = window.memory_after().in_use();
    let norm = |view| window.d_embeddings(view).iter().map(|d| f64::from(*d).powi(2)).sum::<f64>().sqrt();
    let (norm_1, norm_2) = (norm(0), norm(1));
    let text = if args.json {
        let mut summary = json!({
            "frames": frames, "slots": slots, "dimension": dimension, "created": created, "in_use": in_use,
            "grad.h1.norm": norm_1, "grad.h2.norm": norm_2, "out": args.out,
        });
        for (name, value) in scalars(window) {
            summary[name] = json!(value);
        }
        format!("{summary}\n")
    } else {
        let losses = window.losses();
        let d = window.d_control();
        format!(
            "window      {frames} frames, {dimension} numbers each, {slots} slots\n\
             categories  {created} created, {in_use} slots in use afterwards\n\
             loss        {:.6} = self {:.6} + {} × entropy {:.6} + {} × creation {:.6} (mean creation {:.4})\n\
             gradient    1/τ {:+.6}, β {:+.6}, γ {:+.6}, ‖∂h1‖ {norm_1:.6}, ‖∂h2‖ {norm_2:.6}\n\
             written     {}\n",
            losses.total,
            losses.self_supervised,
            rules.entropy_weight,
            losses.entropy,
            rules.creation_weight,
            losses.creation,
            losses.mean_creation,
            d.inv_tau,
            d.beta,
            d.gamma,
            args.out.display()
        )
    };
    super::print(&text)
}
