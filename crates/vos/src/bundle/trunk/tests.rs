//! Trunks that can be run, and each way in which one may not; files of weights that are theirs, and
//! others.

use std::path::Path;

use safetensors::tensor::{Dtype, TensorView, serialize};

use super::fixtures::{repvit, small};
use super::*;

fn hiera(trunk: &mut Trunk) -> &mut Vec<HieraBlock> {
    match &mut trunk.blocks {
        TrunkBlocks::Hiera(blocks) => blocks,
        TrunkBlocks::RepVit(_) => panic!("a RepViT"),
    }
}

fn repvit_blocks(trunk: &mut Trunk) -> &mut Vec<RepVitBlock> {
    match &mut trunk.blocks {
        TrunkBlocks::RepVit(blocks) => blocks,
        TrunkBlocks::Hiera(_) => panic!("a Hiera"),
    }
}

fn refused(change: impl Fn(&mut Trunk), said: &str) {
    refused_of(small(), change, said);
}

fn refused_of(mut trunk: Trunk, change: impl Fn(&mut Trunk), said: &str) {
    change(&mut trunk);
    let error = format!("{:#}", trunk.check().expect_err(said));
    assert!(error.contains(said), "{said:?} is not in {error:?}");
}

#[test]
fn a_trunk_says_what_it_takes_and_gives() {
    let trunk = small();
    trunk.check().unwrap();
    assert_eq!(trunk.takes().unwrap().to_string(), "y f32[1,16,16,8]");
    let given = trunk.gives().unwrap().map(|tensor| tensor.to_string());
    let shapes = ["16,16,8", "8,8,16", "4,4,32", "2,2,64"];
    for (stage, shape) in shapes.into_iter().enumerate() {
        assert_eq!(given[stage], format!("m{stage} f32[1,{shape}]"));
    }
    let depths = trunk.blocks.hiera().unwrap().iter().map(HieraBlock::depth);
    assert_eq!(depths.collect::<Vec<_>>(), [8, 8, 16, 8, 16]);
}

#[test]
fn what_no_kernel_computes_is_refused_with_its_block() {
    refused(|t| t.file = "../engine.json".to_owned(), "said to be in '../engine.json', expected");
    refused(|t| t.ends = [0, 1, 3, 3], "stages end at [0, 1, 3, 3]");
    refused(|t| t.ends = [0, 1, 2, 3], "5 blocks and its stages end at [0, 1, 2, 3]");
    refused(|t| hiera(t).clear(), "0 blocks");
    refused(|t| hiera(t)[3].dim = 12, "block 3 of the trunk: its dim 12");
    refused(|t| hiera(t)[3].heads = 0, "0 heads divide 32 columns");
    refused(|t| hiera(t)[3].heads = 3, "3 heads divide 32 columns into 10");
    refused(|t| hiera(t)[3].heads = 8, "8 heads divide 32 columns into 4 each");
    refused(
        |t| {
            let block = &mut hiera(t)[0];
            (block.dim, block.dim_out) = (104, 104);
        },
        "1 heads divide 104 columns into 104 each, expected a multiple of 8 up to 96",
    );
    refused(|t| hiera(t)[0].window = 17, "block 0 of the trunk: its windows have a side of 17");
    refused(|t| hiera(t)[0].grid = 0, "no tokens");
    refused(|t| hiera(t)[1].window = 0, "pooled in windows of 0");
    refused(|t| hiera(t)[1].window = 5, "pooled in windows of 5 in a map of 16: expected even");
    refused(|t| hiera(t)[1].pooled = false, "it is not pooled and takes 8 columns to 16");
    refused(|t| hiera(t)[0].pooled = true, "it is pooled and takes 8 columns to 8");
    refused(|t| t.ends = [0, 2, 3, 4], "block 2 of the trunk is pooled and does not begin a stage");
    refused(
        |t| hiera(t)[3].grid = 8,
        "block 3 of the trunk takes a map of side 8 with 32 columns, the one before it gives side \
         4",
    );
}

#[test]
fn a_repvit_takes_and_gives_halves() {
    let trunk = repvit();
    trunk.check().unwrap();
    assert_eq!(trunk.takes().unwrap().to_string(), "y f16[1,16,16,16]");
    let given = trunk.gives().unwrap().map(|tensor| tensor.to_string());
    let shapes = ["16,16,16", "8,8,24", "4,4,48", "2,2,64"];
    for (stage, shape) in shapes.into_iter().enumerate() {
        assert_eq!(given[stage], format!("m{stage} f16[1,{shape}]"));
    }
}

#[test]
fn a_repvit_that_no_kernel_computes_is_refused_with_its_block() {
    let refused = |change: &dyn Fn(&mut Vec<RepVitBlock>), said: &str| {
        refused_of(repvit(), |trunk| change(repvit_blocks(trunk)), said);
    };
    refused(&|b| b.clear(), "0 blocks");
    refused(&|b| b[2].dim_out = 20, "block 2 of the trunk: its dim 16 and dim_out 20 must be");
    refused(&|b| b[0].hidden = 0, "block 0 of the trunk: its hidden layer has 0 columns");
    refused(
        &|b| b[0].squeeze = 4,
        "its squeeze-and-excite has 4 columns, expected a multiple of 8",
    );
    refused(&|b| b[1].stride = 3, "block 1 of the trunk: it has stride 3 in a map of 16");
    refused(&|b| b[0].stride = 0, "it has stride 0");
    refused(&|b| b[2].grid = 15, "it has stride 2 in a map of 15");
    refused(&|b| b[2].stride = 1, "it takes 16 columns to 24 with stride 1");
    refused(&|b| b[2].squeeze = 8, "it has squeeze-and-excite with stride 2 in a map of 16");
    refused(&|b| b[0].dim = 1032, "it takes 1032 columns to 16, expected at most 1024");
    refused(&|b| b[0].hidden = 2056, "its hidden layer has 2056 columns, expected a multiple");
    refused(&|b| b[0].squeeze = 264, "its squeeze-and-excite has 264 columns");
    refused(&|b| b[3].grid = 4, "block 3 of the trunk takes a map of side 4 with 24 columns, the");
    refused(
        &|b| {
            for block in &mut b[1..] {
                block.grid /= 2;
            }
            (b[0].stride, b[0].squeeze, b[9].squeeze) = (2, 0, 0);
        },
        "1 blocks of the trunk's stage 0, from block 0 to 0, have stride 2: expected 0",
    );
    refused_of(
        repvit(),
        |trunk| trunk.ends = [0, 1, 3, 9],
        "0 blocks of the trunk's stage 1, from block 1 to 1, have stride 2: expected 1",
    );
}

#[test]
fn a_table_tells_the_kind_of_its_blocks_and_what_it_lacks() {
    for trunk in [small(), repvit()] {
        let text = toml::to_string(&trunk).unwrap();
        assert_eq!(toml::from_str::<Trunk>(&text).unwrap(), trunk);
    }
    let text = toml::to_string(&repvit()).unwrap();
    let said = |text: &str| toml::from_str::<Trunk>(text).unwrap_err().to_string();
    let lacking = said(&text.replacen("stride = 1\n", "", 1));
    assert!(lacking.contains("missing field `stride`"), "{lacking}");
    let unknown = said(&text.replace("[[repvit]]", "[[resnet]]"));
    assert!(unknown.contains("TrunkBlocks"), "{unknown}");
}

/// Name, type and shape of each tensor of a file.
type Tensors = Vec<(String, Dtype, Vec<usize>)>;

/// What a trunk asks for.
fn tensors_of(trunk: &Trunk) -> Tensors {
    let mut all = Vec::new();
    for (at, b) in trunk.blocks.hiera().unwrap().iter().enumerate() {
        let (d, e) = (b.dim, b.dim_out);
        let mut add = |name: &str, shape: &[usize], weight, bias| {
            all.push((format!("blocks.{at}.{name}.weight"), weight, shape.to_vec()));
            all.push((format!("blocks.{at}.{name}.bias"), bias, shape[..1].to_vec()));
        };
        add("norm1", &[d], Dtype::F32, Dtype::F32);
        if d != e {
            add("skip", &[e, d], Dtype::F16, Dtype::F16);
        }
        add("qkv", &[3 * e, d], Dtype::F16, Dtype::F16);
        add("proj", &[e, e], Dtype::F16, Dtype::F32);
        add("norm2", &[e], Dtype::F32, Dtype::F32);
        add("up", &[4 * e, e], Dtype::F16, Dtype::F16);
        add("down", &[e, 4 * e], Dtype::F16, Dtype::F32);
    }
    all
}

/// Writes the file, each tensor's bytes its number, and gives the trunk its hash.
fn write(path: &Path, tensors: &[(String, Dtype, Vec<usize>)], trunk: &mut Trunk) {
    let data: Vec<Vec<u8>> = tensors
        .iter()
        .enumerate()
        .map(|(at, (_, dtype, shape))| {
            vec![at as u8; shape.iter().product::<usize>() * dtype.bitsize() / 8]
        })
        .collect();
    let views = tensors.iter().zip(&data).map(|((name, dtype, shape), bytes)| {
        (name.clone(), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    std::fs::write(path, serialize(views, None).unwrap()).unwrap();
    trunk.sha256 = crate::files::sha256_of_file(path).unwrap().sha256;
}

#[test]
fn each_blocks_tensors_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.safetensors");
    let mut trunk = small();
    let tensors = tensors_of(&trunk);
    write(&path, &tensors, &mut trunk);
    let weights = TrunkWeights::open(&path, &trunk).unwrap();
    let number = |name: &str| tensors.iter().position(|(n, ..)| n == name).unwrap() as u8;
    let first = weights.hiera_block(0).unwrap();
    assert!(first.skip.is_none());
    assert_eq!(first.qkv.weight, vec![number("blocks.0.qkv.weight"); 2 * 24 * 8]);
    let second = weights.hiera_block(1).unwrap();
    assert_eq!(second.skip.unwrap().bias, [number("blocks.1.skip.bias"); 2 * 16]);
    assert_eq!(second.norm1.weight, [number("blocks.1.norm1.weight"); 4 * 8]);
    assert_eq!(second.down.weight, vec![number("blocks.1.down.weight"); 2 * 16 * 64]);
    assert_eq!(second.down.bias, [number("blocks.1.down.bias"); 4 * 16]);
    let bytes = tensors.iter().map(|(_, d, s)| s.iter().product::<usize>() * d.bitsize() / 8);
    assert_eq!(trunk.bytes(), bytes.sum::<usize>() as u64);
    assert!(weights.hiera_block(5).is_err());
}

#[test]
fn another_file_is_refused_with_tensor_found_and_expected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.safetensors");
    let refused = |change: &dyn Fn(&mut Tensors), said: &str| {
        let mut trunk = small();
        let mut tensors = tensors_of(&trunk);
        change(&mut tensors);
        write(&path, &tensors, &mut trunk);
        let error = TrunkWeights::open(&path, &trunk).err().map(|e| format!("{e:#}"));
        let error = error.expect(said);
        assert!(error.contains(said) && error.contains("w.safetensors"), "{said:?}: {error:?}");
    };
    refused(
        &|t| t.retain(|(name, ..)| name != "blocks.1.skip.bias"),
        "the tensor blocks.1.skip.bias is missing, expected F16[16]",
    );
    refused(
        &|t| t.iter_mut().find(|t| t.0 == "blocks.2.proj.bias").unwrap().1 = Dtype::F16,
        "the tensor blocks.2.proj.bias is F16[32], expected F32[32]",
    );
    refused(
        &|t| t.iter_mut().find(|t| t.0 == "blocks.2.up.weight").unwrap().2 = vec![32, 128],
        "the tensor blocks.2.up.weight is F16[32, 128], expected F16[128, 32]",
    );
    refused(
        &|t| t.push(("blocks.5.norm1.bias".into(), Dtype::F32, vec![8])),
        "expected 66 of the encoder's trunk",
    );

    let mut trunk = small();
    let tensors = tensors_of(&trunk);
    write(&path, &tensors, &mut trunk);
    let said = |trunk: &Trunk| format!("{:#}", TrunkWeights::open(&path, trunk).err().unwrap());
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 2]).unwrap();
    assert!(said(&trunk).contains("is damaged or another file: found sha256"));
    trunk.sha256 = crate::files::sha256_of_file(&path).unwrap().sha256;
    assert!(said(&trunk).contains("not a safetensors file"), "{}", said(&trunk));
    std::fs::remove_file(&path).unwrap();
    assert!(said(&trunk).contains("cannot read"), "{}", said(&trunk));
}

#[test]
fn a_repvits_tensors_are_found_by_their_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.safetensors");
    let mut trunk = repvit();
    let mut tensors = Tensors::new();
    for (at, b) in repvit_blocks(&mut trunk).iter().enumerate() {
        let mut add = |name: &str, shape: [usize; 2], bias| {
            tensors.push((format!("blocks.{at}.{name}.weight"), Dtype::F16, shape.to_vec()));
            tensors.push((format!("blocks.{at}.{name}.bias"), Dtype::F32, vec![bias]));
        };
        add("dw", [9, b.dim], b.dim);
        if b.squeeze > 0 {
            add("squeeze", [b.squeeze, b.dim], b.squeeze);
            add("excite", [b.dim, b.squeeze], b.dim);
        }
        if b.dim != b.dim_out {
            add("pw", [b.dim_out, b.dim], b.dim_out);
        }
        add("up", [b.hidden, b.dim_out], b.hidden);
        add("down", [b.dim_out, b.hidden], b.dim_out);
    }
    write(&path, &tensors, &mut trunk);
    let weights = TrunkWeights::open(&path, &trunk).unwrap();
    let number = |name: &str| tensors.iter().position(|(n, ..)| n == name).unwrap() as u8;
    let first = weights.repvit_block(0).unwrap();
    assert!(first.depthwise.weight == vec![number("blocks.0.dw.weight"); 2 * 9 * 16]);
    assert_eq!(first.excite.unwrap().bias, [number("blocks.0.excite.bias"); 4 * 16]);
    assert!(first.pointwise.is_none());
    let third = weights.repvit_block(2).unwrap();
    assert!(third.squeeze.is_none() && third.excite.is_none());
    let columns = third.pointwise.unwrap().weight;
    assert!(columns == vec![number("blocks.2.pw.weight"); 2 * 24 * 16]);
    assert!(third.down.weight == vec![number("blocks.2.down.weight"); 2 * 24 * 48]);
    assert!(weights.repvit_block(10).is_err());

    let taken = tensors.iter().position(|(name, ..)| name == "blocks.9.squeeze.bias").unwrap();
    tensors.remove(taken);
    write(&path, &tensors, &mut trunk);
    let error = format!("{:#}", TrunkWeights::open(&path, &trunk).err().unwrap());
    assert!(error.contains("the tensor blocks.9.squeeze.bias is missing, expected F32"), "{error}");
}
