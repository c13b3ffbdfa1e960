//! Fixtures and the batches in them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use tch::{Device, Kind, Tensor};
use trainer_models::{LoadOptions, Lora, Model, Pass, Precision, Tuning, weights};

pub(crate) const MODELS: [&str; 3] = ["tiny-qwen2", "tiny-qwen3", "tiny-llama3"];

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

pub(crate) fn folder(model: &str) -> PathBuf {
    fixtures().join("models").join(model)
}

pub(crate) fn numeric(model: &str, name: &str) -> PathBuf {
    fixtures().join("numeric").join(model).join(name)
}

pub(crate) fn options(precision: Precision, tuning: Tuning) -> LoadOptions {
    LoadOptions {
        precision,
        tuning,
        device: Device::Cpu,
    }
}

pub(crate) fn load(model: &str, tuning: Tuning) -> Model {
    Model::load(&folder(model), &options(Precision::F32, tuning)).unwrap()
}

/// Tuning that continues a fixture's adapter.
pub(crate) fn adapter(model: &str, name: &str) -> Tuning {
    Tuning::Lora(Lora {
        adapters: vec![numeric(model, name)],
        ..Lora::new(8, 1)
    })
}

pub(crate) fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A padded batch of the fixtures, flattened to its real tokens.
pub(crate) struct Batch {
    pub(crate) ids: Tensor,
    pub(crate) positions: Tensor,
    pub(crate) segments: Vec<i64>,
    /// Shifted: the label of token i is what follows it.
    pub(crate) labels: Tensor,
    /// Index of each real token in the padded batch.
    pub(crate) real: Tensor,
}

impl Batch {
    pub(crate) fn new(tensors: &BTreeMap<String, Tensor>, prefix: &str) -> Self {
        let get = |name: &str| tensors[&format!("{prefix}{name}")].to_kind(Kind::Int64);
        let (ids, mask, labels) = (get("input_ids"), get("attention_mask"), get("labels"));
        let segments =
            Vec::<i64>::try_from(mask.sum_dim_intlist([1_i64].as_slice(), false, Kind::Int64))
                .unwrap();
        let (rows, columns) = ids.size2().unwrap();
        let real = mask.view([-1]).nonzero().view([-1]);
        let shifted = Tensor::cat(
            &[
                labels.narrow(1, 1, columns - 1),
                Tensor::full([rows, 1], -100, (Kind::Int64, Device::Cpu)),
            ],
            1,
        );
        let pick = |x: &Tensor| x.contiguous().view([-1]).index_select(0, &real);
        let positions =
            Tensor::arange(columns, (Kind::Int64, Device::Cpu)).expand([rows, columns], false);
        Self {
            ids: pick(&ids),
            positions: pick(&positions),
            labels: pick(&shifted),
            segments,
            real,
        }
    }

    pub(crate) fn forward(model: &str) -> (Self, BTreeMap<String, Tensor>) {
        let tensors = weights::read_all(&numeric(model, "forward.safetensors")).unwrap();
        (Self::new(&tensors, ""), tensors)
    }

    pub(crate) fn pass(&self, model: &Model) -> Pass<'static> {
        model.pass(&self.positions, &self.segments).unwrap()
    }

    pub(crate) fn logits(&self, model: &Model) -> Tensor {
        model.forward(&self.ids, &self.pass(model)).unwrap()
    }

    /// The mean over labels, from logits only where a label is.
    pub(crate) fn loss(&self, model: &Model) -> Tensor {
        let pass = self.pass(model);
        let mut hidden = model.embed(&self.ids).unwrap();
        for index in 0..model.num_blocks() {
            hidden = model.block(index, &hidden, &pass).unwrap();
        }
        let rows = self.labels.not_equal(-100).nonzero().view([-1]);
        let logits = model.head(&hidden.index_select(0, &rows)).unwrap();
        let wide = if logits.kind() == Kind::Double {
            Kind::Double
        } else {
            Kind::Float
        };
        logits
            .log_softmax(-1, wide)
            .nll_loss(&self.labels.index_select(0, &rows))
    }
}

pub(crate) fn max_difference(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.size(), b.size());
    (a.to_kind(Kind::Double) - b.to_kind(Kind::Double))
        .abs()
        .max()
        .double_value(&[])
}

/// The logits that the fixtures keep after training: every fourth position, where it is real.
pub(crate) fn after_difference(model: &Model, name: &str, file: &str) -> f64 {
    let (batch, tensors) = Batch::forward(name);
    let kept = weights::read_all(&numeric(name, file)).unwrap();
    let kept = &kept["logits"];
    let (rows, columns) = tensors["input_ids"].size2().unwrap();
    let mut full = Tensor::zeros(
        [rows * columns, kept.size()[2]],
        (Kind::Double, Device::Cpu),
    );
    let logits = tch::no_grad(|| batch.logits(model)).to_kind(Kind::Double);
    drop(full.index_copy_(0, &batch.real, &logits));
    let own = full.view([rows, columns, -1]).slice(1, 0, columns, 4);
    let mask = tensors["attention_mask"]
        .to_kind(Kind::Double)
        .slice(1, 0, columns, 4)
        .unsqueeze(-1);
    max_difference(&(own * &mask), &(kept.to_kind(Kind::Double) * &mask))
}
