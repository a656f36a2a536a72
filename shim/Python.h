// The part of Python's C interface with which an extension makes an empty module for its
// TORCH_LIBRARY. cupel loads no Python module.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>

typedef struct _object PyObject;
typedef struct {
  int unused;
} PyModuleDef_Base;
typedef struct {
  const char* ml_name;
  PyObject* (*ml_meth)(PyObject*, PyObject*);
  int ml_flags;
  const char* ml_doc;
} PyMethodDef;
struct PyModuleDef {
  PyModuleDef_Base m_base;
  const char* m_name;
  const char* m_doc;
  long m_size;
  PyMethodDef* m_methods;
};
#define PyModuleDef_HEAD_INIT {0}
#define METH_VARARGS 1
#define METH_NOARGS 4
#ifdef __cplusplus
#define PyMODINIT_FUNC extern "C" PyObject*
#else
#define PyMODINIT_FUNC PyObject*
#endif
static inline PyObject* PyModule_Create(struct PyModuleDef* definition) {
  (void)definition;
  return NULL;
}
