#include "gpux/model_info.h"
