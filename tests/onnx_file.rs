/*!
ONNX files of a bundle, read without ONNX's own library.
*/

use tensorrt::onnx_file::{OnnxSummary, OnnxTensor};
use vos::bundle::Bundle;
use vos::bundle::manifest::Tensor;

#[test]
fn the_committed_graph_is_read_as_its_manifest_describes_it() {
    let bundle = Bundle::open("onnx/bundles/edgetam_mini_256_fp32".as_ref()).unwrap();
    for graph in &bundle.manifest.graphs {
        let summary = OnnxSummary::read(&bundle.dir.join(&graph.file)).unwrap();
        assert_eq!(summary.opset, Some(i64::from(bundle.manifest.export.opset)));
        let names = |tensors: &[OnnxTensor]| -> Vec<String> {
            tensors.iter().map(|t| t.name.clone()).collect()
        };
        let told = |tensors: &[Tensor]| -> Vec<String> {
            tensors.iter().map(|t| t.name.clone()).collect()
        };
        assert_eq!(names(&summary.inputs), told(&graph.inputs), "{}", graph.file);
        assert_eq!(names(&summary.outputs), told(&graph.outputs), "{}", graph.file);
    }
}
