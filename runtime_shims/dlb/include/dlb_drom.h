#include "dlb.h"
