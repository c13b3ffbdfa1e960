//! From row numbers to the tensors of a step.

use tch::Device;
use trainer_data::{Batch, Example, IGNORE_INDEX, Prepared};
use trainer_parallel::MicroBatch;

use crate::error::EngineError;

/// Lays the given rows end to end and makes tensors of them.
pub(crate) fn micro_batch(
    examples: &[Example],
    rows: &[usize],
    device: Device,
) -> Result<MicroBatch, EngineError> {
    let batch = Batch::of_rows(examples, rows);
    Ok(MicroBatch::new(
        &batch.input_ids,
        &batch.labels,
        &batch.position_ids,
        &batch.segment_lengths,
        IGNORE_INDEX,
        device,
    )?)
}

/// Refuses rows with token ids that the embedding has no row for; libtorch would end the process on them.
pub(crate) fn check_token_range(prepared: &Prepared, vocab_size: i64) -> Result<(), EngineError> {
    let highest = prepared
        .train
        .iter()
        .chain(&prepared.eval)
        .flat_map(|example| &example.input_ids)
        .copied()
        .max()
        .map_or(-1, i64::from);
    let added = &prepared.report.added_tokens;
    match highest {
        token if token < vocab_size => Ok(()),
        token if added.is_empty() => Err(EngineError::TokenOutOfRange { token, vocab_size }),
        token => Err(EngineError::TemplateTokens {
            template: prepared.template.clone(),
            added: added.clone(),
            token,
            vocab_size,
        }),
    }
}

#[cfg(test)]
mod tests {
    use run_protocol::ExitCode;
    use trainer_data::PrepareReport;

    use super::*;

    #[test]
    fn a_token_beyond_the_embedding_is_the_templates_fault_where_it_added_some() {
        let mut prepared = Prepared {
            eval: vec![Example {
                input_ids: vec![3, 10],
                labels: vec![3, 10],
                is_truncated: false,
            }],
            template: "chatml".into(),
            ..Prepared::default()
        };
        assert!(check_token_range(&prepared, 11).is_ok());
        let error = check_token_range(&prepared, 10).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::BadModel);
        prepared.report = PrepareReport {
            added_tokens: vec!["<|im_start|>".into()],
            ..PrepareReport::default()
        };
        let error = check_token_range(&prepared, 10).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::BadConfig);
        let text = error.to_string();
        assert!(
            text.contains("chatml") && text.contains("<|im_start|>"),
            "{text}"
        );
        assert!(error.hint().unwrap().contains("template"));
    }
}
