"""Private preprocessing: scalers, a discretizer, encoders of categories."""

from skdp.preprocessing._discretizer import DPKBinsDiscretizer
from skdp.preprocessing._encoders import DPOneHotEncoder, DPOrdinalEncoder
from skdp.preprocessing._scalers import (
    DPMinMaxScaler,
    DPQuantileTransformer,
    DPRobustScaler,
    DPStandardScaler,
)
from skdp.preprocessing._target_encoder import DPTargetEncoder

__all__ = [
    "DPKBinsDiscretizer",
    "DPMinMaxScaler",
    "DPOneHotEncoder",
    "DPOrdinalEncoder",
    "DPQuantileTransformer",
    "DPRobustScaler",
    "DPStandardScaler",
    "DPTargetEncoder",
]
