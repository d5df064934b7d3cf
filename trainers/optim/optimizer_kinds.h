// The optimizers, one line each: enumerator, name on the command line, function that makes it. To add one,
// write its file (sgd.cc is an example) and its line here. Checkpoints identify an optimizer by its position
// in this list: add at the end.
#pragma once

#define MT_OPTIMIZERS(X)     \
  X(kSgd, "sgd", MakeSgd)    \
  X(kAdam, "adam", MakeAdam) \
  X(kAdamW, "adamw", MakeAdam)
