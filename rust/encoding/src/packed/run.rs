//! Encoding 4, `run`: runs of equal values, which begin anew in every block.
//!
//! Head: the number of runs of each block, u16. Below: the values of all runs, and their lengths less 1.

use super::decoder::{Bodies, BodyRange, Numbers, decode_range};
use super::encoding::Encoding;
use super::head::Head;
use super::leaf;
use super::node::{BLOCK, EncodedNode, Node, NodeId, block_len};
use crate::error::Error;

#[derive(Debug)]
pub(crate) struct Run {
    id: NodeId,
    num_values: usize,
    /// The first run of each block, and the number of all runs.
    starts: Vec<usize>,
    values: Box<dyn Numbers>,
    lengths: Box<dyn Numbers>,
}

/// # Errors
/// `Corrupt` for numbers of runs that fit neither the blocks nor the nodes below.
pub(crate) fn parse(
    node: &Node<'_>,
    values: Box<dyn Numbers>,
    lengths: Box<dyn Numbers>,
) -> Result<Run, Error> {
    node.refuse_flags(0)?;
    node.expect_body(0)?;
    let mut head = Head::of(node);
    let counts = head.u16s(node.num_blocks())?;
    head.end()?;
    let mut starts = Vec::with_capacity(counts.len() + 1);
    let mut total = 0;
    for (block, &runs) in counts.iter().enumerate() {
        let (runs, len) = (usize::from(runs), block_len(node.values, block));
        if runs == 0 || runs > len {
            let what = format!("{runs} runs of {len} values");
            return Err(node.id.corrupt_block(block, what));
        }
        starts.push(total);
        total += runs;
    }
    starts.push(total);
    node.expect_values("values of runs", values.num_values(), total)?;
    node.expect_values("lengths of runs", lengths.num_values(), total)?;
    Ok(Run {
        id: node.id,
        num_values: node.values,
        starts,
        values,
        lengths,
    })
}

impl Run {
    fn runs(&self, block: usize) -> std::ops::Range<usize> {
        match self.starts.get(block..) {
            Some([start, end, ..]) => *start..*end,
            _ => 0..0,
        }
    }
}

impl Numbers for Run {
    fn num_values(&self) -> usize {
        self.num_values
    }

    fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>) {
        let runs = self.runs(block);
        for block in runs.start / BLOCK..runs.end.div_ceil(BLOCK) {
            self.values.plan(block, ranges);
            self.lengths.plan(block, ranges);
        }
    }

    fn decode_block(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        let runs = self.runs(block);
        let count = runs.len().min(BLOCK);
        let (mut values, mut lengths) = ([0; BLOCK], [0; BLOCK]);
        decode_range(
            self.values.as_ref(),
            runs.clone(),
            bodies,
            &mut values[..count],
        )?;
        decode_range(self.lengths.as_ref(), runs, bodies, &mut lengths[..count])?;
        let mut rest = out;
        for (value, length) in values[..count].iter().zip(&lengths[..count]) {
            let length = usize::try_from(length.saturating_add(1)).unwrap_or(usize::MAX);
            let Some((run, behind)) = rest.split_at_mut_checked(length) else {
                return Err(self.id.corrupt_block(block, "its runs are longer"));
            };
            run.fill(*value);
            rest = behind;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let missing = rest.len();
        Err(self
            .id
            .corrupt_block(block, format!("its runs end {missing} values before it")))
    }
}

/// Runs of numbers: of each block their number, and of all runs value and length less 1.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    counts: Vec<u16>,
    values: Vec<u64>,
    lengths: Vec<u64>,
}

/// The runs of some values.
pub(crate) fn find(values: &[u64]) -> Runs {
    let mut runs = Runs::default();
    for block in values.chunks(BLOCK) {
        let mut count = 0;
        for run in block.chunk_by(|a, b| a == b) {
            runs.values.extend(run.first());
            runs.lengths.push(run.len() as u64 - 1);
            count += 1;
        }
        runs.counts.push(count);
    }
    runs
}

/// Numbers of `width` bytes as words; equal means equal bits.
#[must_use]
pub fn encode(values: &[u64], width: u8) -> EncodedNode {
    let runs = find(values);
    let mut node = EncodedNode::new(Encoding::Run, width, values.len());
    for count in &runs.counts {
        node.head.extend(count.to_le_bytes());
    }
    node.children = vec![
        leaf::encode_values(&runs.values, width),
        leaf::encode_lengths(&runs.lengths),
    ];
    node
}
