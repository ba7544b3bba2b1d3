/*!
The layers of a network, and their precision.

LayerNorm and softmax lose digits in half precision. In weakly typed networks such layers can be
pinned to fp32; strongly typed networks have casts in the ONNX file instead.
*/

use super::error::Result;
use super::ffi_object::copied;
use super::network::Network;
use super::sys;
use super::types::DataType;

/// One layer of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerInfo {
    /// Its index in the network.
    pub index: i32,
    /// Its name: the ONNX node's, with suffixes where a node became several layers.
    pub name: String,
    /// TensorRT's kind of layer ("SOFTMAX"), none for a kind that the tables do not have.
    pub kind: Option<String>,
    /// Element types of its outputs.
    pub outputs: Vec<Option<DataType>>,
}

impl Network {
    /// All layers, in the parser's order.
    pub fn layers(&self) -> Vec<LayerInfo> {
        let (api, network) = (self.object.api(), self.pointer());
        // SAFETY: a living network.
        let count = unsafe { sys::trtdl_network_layers(api, network) };
        (0..count)
            .filter_map(|index| {
                // SAFETY: an index below the network's count; the layer lives as long as the
                // network.
                let (name, kind, outputs) = unsafe {
                    let layer = sys::trtdl_network_layer(api, network, index);
                    if layer.is_null() {
                        return None;
                    }
                    let outputs = (0..sys::trtdl_layer_outputs(api, layer))
                        .map(|output| sys::trtdl_layer_output_type(api, layer, output))
                        .map(DataType::from_shim)
                        .collect();
                    let name = copied(sys::trtdl_layer_name(api, layer));
                    (name, copied(sys::trtdl_layer_kind(api, layer)), outputs)
                };
                Some(LayerInfo { index, name: name?, kind, outputs })
            })
            .collect()
    }

    /// Computes a layer in `precision` and writes its floating-point outputs in it.
    ///
    /// Takes effect with [`Flag::ObeyPrecision`](super::Flag::ObeyPrecision) or
    /// [`Flag::PreferPrecision`](super::Flag::PreferPrecision).
    ///
    /// # Errors
    /// [`Error::Unsupported`](super::Error::Unsupported) in strongly typed families; an index that
    /// is no layer's.
    pub fn pin_layer(&mut self, index: i32, precision: DataType) -> Result<()> {
        let mark = self.library().inner.log.mark();
        // SAFETY: a living network, which answers NULL for an index that it does not have.
        let layer = unsafe { sys::trtdl_network_layer(self.object.api(), self.pointer(), index) };
        if layer.is_null() {
            return Err(self.library().failed(format!("find layer {index}"), mark));
        }
        self.library().ask(format!("pin layer {index} to {precision}"), |api| {
            // SAFETY: a layer of the living network.
            unsafe { sys::trtdl_layer_pin(api, layer, precision as u32) }
        })
    }
}
